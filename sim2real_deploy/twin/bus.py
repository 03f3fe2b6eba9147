"""A message bus with delay, jitter, loss and duplication. Time is an argument."""

from collections import deque

import numpy as np

from sim2real_deploy.twin.config import Bus

_FATES = 256


class MessageBus:
    """Messages come out late, twice, or never, in the order in which they went in."""

    def __init__(self, bus: Bus, rng: np.random.Generator) -> None:
        self._bus = bus
        self._rng = rng
        self._under_way: deque[tuple[int, bytes]] = deque()
        self._perfect = bus == Bus()
        self._fates: list[tuple[int, int]] = []  # copies and delay, drawn for many at a time

    def put(self, message: bytes, now_ns: int) -> None:
        copies, delay = 1, 0
        if not self._perfect:
            if not self._fates:
                self._draw_fates()
            copies, delay = self._fates.pop()
        due, under_way = now_ns + delay, self._under_way
        if under_way and under_way[-1][0] > due:
            due = under_way[-1][0]
        for _ in range(copies):
            under_way.append((due, message))

    def arrived(self, now_ns: int) -> list[bytes]:
        """Every message that has arrived since the last call."""
        under_way, messages = self._under_way, []
        while under_way and under_way[0][0] <= now_ns:
            messages.append(under_way.popleft()[1])
        return messages

    def _draw_fates(self) -> None:
        bus = self._bus
        loss, duplication, jitter = self._rng.random((3, _FATES))
        copies = (loss >= bus.loss) * (1 + (duplication < bus.duplication))
        delays = np.rint(1e9 * (bus.delay + jitter * bus.jitter)).astype(np.int64)
        self._fates = list(zip(copies.tolist(), delays.tolist(), strict=True))

    def clear(self) -> None:
        self._under_way.clear()
