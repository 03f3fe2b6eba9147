"""Fixtures for every room: the ones that are costly to make, and the real DDS peer."""

import signal
from pathlib import Path

import pytest

pytest_plugins = ["support.interop"]

# A runner in the background may have SIGINT ignored, and every process the tests start inherits it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def walk_bag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few seconds of standing up, walking and sitting down, recorded. Read it, do not write."""
    from support.simulated_run import record_walk

    path = tmp_path_factory.mktemp("bags") / "walk"
    record_walk(path, seconds=4.0)
    return path
