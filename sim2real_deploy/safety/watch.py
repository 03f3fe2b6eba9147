"""Debounces one row of the events table: raised when exceeded for long enough, then cleared.

Time over the threshold fills a bucket, time under it drains the bucket. So a fault that comes and
goes is caught as well as one that stays, and a single odd sample is not.
"""

from sim2real_deploy.safety.events import Event
from sim2real_deploy.safety.inputs import Reading

HOLD_S = 0.5  # an event stays active at least this long after its cause has gone
LONGEST_STEP_S = 0.02  # a late cycle has seen one sample, not the time in between


class Watch:
    __slots__ = ("_bucket_s", "active", "event", "reading")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.active = False
        self.reading: Reading | None = None  # the newest; while active, the one that raised it
        self._bucket_s = 0.0

    def update(self, reading: Reading | None, elapsed_s: float) -> bool:
        """Process a reading; True when it raised or cleared the event."""
        exceeded = reading is not None and self.event.exceeded(reading.value)
        if exceeded or not self.active:
            self.reading = reading
        if not exceeded and not self._bucket_s:
            return False
        step_s = min(elapsed_s, LONGEST_STEP_S)
        self._bucket_s = self._bucket_s + step_s if exceeded else max(0.0, self._bucket_s - step_s)
        full = self.event.time_s + HOLD_S
        if self.active:
            self._bucket_s = min(self._bucket_s, full)
            self.active = exceeded or self._bucket_s > 0.0
            return not self.active
        if exceeded and self._bucket_s >= self.event.time_s:
            self.active, self._bucket_s = True, full
        return self.active

    def describe(self) -> str:
        reading = self.reading or Reading(0.0)
        return self.event.describe(reading.value, reading.where)
