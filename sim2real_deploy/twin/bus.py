"""What a message meets on its way: delay, jitter, loss, duplication. Time is an argument."""

from collections import deque

import numpy as np

from sim2real_deploy.twin.config import Bus


class MessageBus:
    """Messages go in, and come out late, twice, or never, in the order they went in."""

    def __init__(self, bus: Bus, rng: np.random.Generator) -> None:
        self._bus = bus
        self._rng = rng
        self._under_way: deque[tuple[int, bytes]] = deque()
        self._perfect = bus == Bus()
        self._chances: list[list[float]] = []  # drawn many at a time

    def put(self, message: bytes, now_ns: int) -> None:
        bus = self._bus
        due = now_ns
        copies = 1
        if not self._perfect:
            if not self._chances:
                self._chances = self._rng.random((256, 3)).tolist()
            loss, duplication, jitter = self._chances.pop()
            if loss < bus.loss:
                return
            copies += duplication < bus.duplication
            due += round(1e9 * (bus.delay + jitter * bus.jitter))
            if self._under_way:
                due = max(due, self._under_way[-1][0])
        for _ in range(copies):
            self._under_way.append((due, message))

    def get(self, now_ns: int) -> bytes | None:
        """The next message that has arrived by now, or None."""
        if self._under_way and self._under_way[0][0] <= now_ns:
            return self._under_way.popleft()[1]
        return None

    def clear(self) -> None:
        self._under_way.clear()
