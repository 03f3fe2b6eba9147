"""The clock of a playback, with rate and pauses. Pure: the time is an argument."""


class PlaybackClock:
    """Maps this machine's monotonic time onto the time of a recording."""

    def __init__(self, position_ns: int, rate: float, now_ns: int) -> None:
        self.rate = rate
        self.paused = False
        self._position_ns = position_ns
        self._since_ns = now_ns

    def position(self, now_ns: int) -> int:
        """The present position in the recording."""
        if self.paused:
            return self._position_ns
        return self._position_ns + int((now_ns - self._since_ns) * self.rate)

    def wait_s(self, log_ns: int, now_ns: int) -> float:
        """How long until this moment of the recording; zero when it is past."""
        if self.paused:
            return float("inf")
        return max(0.0, (log_ns - self.position(now_ns)) / self.rate / 1e9)

    def toggle_pause(self, now_ns: int) -> None:
        self._position_ns = self.position(now_ns)
        self._since_ns = now_ns
        self.paused = not self.paused
