"""The vendor protocol: codecs, CRC, channels, mode switch."""
