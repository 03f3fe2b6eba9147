"""Processes and time: real-time rights, stalls, the world clock, local channels, stop order."""
