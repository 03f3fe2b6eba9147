"""No process outlives the one that started it."""

import subprocess
import sys

import psutil

CHILD = """
import sys, time
from sim2real_deploy.runtime.parent import end_with_parent
end_with_parent(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(60)
"""
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
print(child.pid, flush=True)
child.wait()
"""


def test_a_child_ends_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "ready\n"
    parent.kill()
    parent.wait()
    child.wait(timeout=10)


def test_a_child_that_comes_too_late_ends_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "has ended" in done.stderr
