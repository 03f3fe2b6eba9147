"""Heartbeats of each core, which keep the twin's clock: a thread of the highest priority each.

When a core's thread falls silent, everything else on that core stands still too, and the world
waits. Without the right to that priority there are no beats: the clock is the monotonic one.
"""

import os
import threading
import time

from sim2real_deploy.runtime.realtime import WITNESS_PRIORITY, prefer_this_thread
from sim2real_deploy.runtime.world_clock import BEAT_NS, ClockPage


class CoreBeats:
    """Beats from `start` to `close`, which also removes the clock's page."""

    def __init__(self, page: ClockPage) -> None:
        self._page = page
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._beat, args=(core,), name=f"core {core}", daemon=True)
            for core in sorted(os.sched_getaffinity(0))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._page.close()

    def _beat(self, core: int) -> None:
        os.sched_setaffinity(0, {core})
        if prefer_this_thread(WITNESS_PRIORITY):
            return
        due_ns = time.monotonic_ns()
        while not self._stop.is_set():
            self._page.beat(core)
            now_ns = time.monotonic_ns()
            due_ns = max(due_ns + BEAT_NS, now_ns)
            time.sleep((due_ns - now_ns) / 1e9)
