"""Safety: monitors, events, the latch. Pure: no I/O, the clock is an argument."""
