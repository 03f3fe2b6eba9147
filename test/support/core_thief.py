"""Takes a core away from everybody, as a host does: `core_thief.py CORE SECONDS EVERY TIMES`."""

import os
import sys
import time

core, seconds, every, times = int(sys.argv[1]), *map(float, sys.argv[2:5])
os.sched_setaffinity(0, {core})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
for _ in range(int(times)):
    time.sleep(every - seconds)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
