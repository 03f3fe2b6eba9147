"""Fixtures for every room: the ones that are costly to make, and the real DDS peer."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["support.interop"]

# A runner in the background may have SIGINT ignored, and every process the tests start inherits it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def ordinary_rights() -> Iterator[None]:
    """What runs in this process may take real-time priority, and every child inherits it: a
    browser with it starves the machine."""
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.sched_setaffinity(0, cores)


@pytest.fixture(scope="session")
def walk_bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few seconds of standing up, walking and sitting down, recorded. Read it, do not write."""
    from support.simulated_run import record_walk

    path = tmp_path_factory.mktemp("bags") / "walk"
    record_walk(path, seconds=4.0)
    return path


@pytest.fixture
def hang_ups_are_heard() -> Iterator[None]:
    """Also where `nohup` started the tests: what they start would ignore the signal, as it did."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
