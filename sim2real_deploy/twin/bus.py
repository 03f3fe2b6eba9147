"""What a message meets on its way: delay, jitter, loss, duplication. Time is an argument."""

from collections import deque

import numpy as np

from sim2real_deploy.twin.config import Bus

_FATES = 256


class MessageBus:
    """Messages go in, and come out late, twice, or never, in the order they went in."""

    def __init__(self, bus: Bus, rng: np.random.Generator) -> None:
        self._bus = bus
        self._rng = rng
        self._under_way: deque[tuple[int, bytes]] = deque()
        self._perfect = bus == Bus()
        self._fates: list[tuple[int, int]] = []  # copies and delay, drawn for many at a time

    def put(self, message: bytes, now_ns: int) -> None:
        if self._perfect:
            self._under_way.append((now_ns, message))
            return
        if not self._fates:
            self._draw_fates()
        copies, delay = self._fates.pop()
        due = now_ns + delay
        if self._under_way:
            due = max(due, self._under_way[-1][0])
        for _ in range(copies):
            self._under_way.append((due, message))

    def get(self, now_ns: int) -> bytes | None:
        """The next message that has arrived by now, or None."""
        if self._under_way and self._under_way[0][0] <= now_ns:
            return self._under_way.popleft()[1]
        return None

    def _draw_fates(self) -> None:
        bus = self._bus
        loss, duplication, jitter = self._rng.random((3, _FATES))
        copies = (loss >= bus.loss) * (1 + (duplication < bus.duplication))
        delays = np.rint(1e9 * (bus.delay + jitter * bus.jitter)).astype(np.int64)
        self._fates = list(zip(copies.tolist(), delays.tolist(), strict=True))

    def clear(self) -> None:
        self._under_way.clear()
