"""A real Cyclone DDS 0.10.2 peer, the version on the robot, in a network of its own.

Needs root, `ip`, a C compiler and Debian's cyclonedds-dev (0.10.2): apt-get install cyclonedds-dev
cyclonedds-tools gcc iproute2. Skipped, saying which, where one is missing.
"""

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim2real_deploy.wire.libddsc import LIBRARY_VARIABLE, find_library
from support.interop import run
from support.places import SUPPORT

STATES = 2500  # 5 s at 500 Hz
DOMAIN = 0  # the robot's: the networks are our own
OPEN_AND_CLOSE = f"""
from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.dds_link import DdsLink
link = DdsLink(load_robot("go2"), "eth0", {DOMAIN})
print("open", flush=True)
input()
link.close()
"""


def exchange(peer: Path, networks: tuple[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both ends run to their end; what ours and theirs then say."""
    theirs, ours = networks
    config = (
        '<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="eth0"/>'
        "</Interfaces></General></Domain></CycloneDDS>"
    )
    robot = subprocess.Popen(
        ["ip", "netns", "exec", theirs, str(peer), str(STATES)],
        env={**os.environ, "CYCLONEDDS_URI": config},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child = SUPPORT / "wire_interop_child.py"
    try:
        link = subprocess.run(
            ["ip", "netns", "exec", ours, sys.executable, str(child), "eth0", str(DOMAIN)],
            capture_output=True,
            text=True,
            timeout=90,
        )
        said, complaint = robot.communicate(timeout=60)
    finally:
        robot.kill()
        robot.wait()
    assert link.returncode == 0, link.stderr
    assert robot.returncode == 0, complaint
    return json.loads(link.stdout), json.loads(said)


@pytest.mark.timeout(600)
def test_states_and_commands_pass_with_a_robots_cyclone(
    peer: Path, networks: tuple[str, str]
) -> None:
    """Nothing lost in 5 s. A machine that stalls for longer than its socket buffers last loses
    some with any software: it gets a second and a third chance, and only for that."""
    for attempt in range(1, 4):
        got, heard = exchange(peer, networks)
        counters = got["counters"]
        assert counters["received"] > 0
        assert counters["bad_crc"] == counters["bad_length"] == counters["not_finite"] == 0
        assert heard["bad_crc"] == 0
        assert got["others"] == []
        missing = STATES - counters["received"] + STATES - heard["commands"]
        if missing == 0:
            break
        print(f"attempt {attempt}: {missing} missing")
    assert counters["received"] == heard["commands"] == counters["sent"] == STATES
    assert counters["lost"] == heard["gaps"] == 0
    assert got["last"] == STATES


@pytest.mark.parametrize("robots_own", [True, False])
def test_a_link_closes_though_its_interface_has_lost_its_address(
    peer: Path, networks: tuple[str, str], robots_own: bool
) -> None:
    """`peer`: only where it can be built, the robot's own version is here."""
    ours = networks[1]
    library = ctypes.util.find_library("ddsc") if robots_own else find_library()
    with subprocess.Popen(
        ["ip", "netns", "exec", ours, sys.executable, "-c", OPEN_AND_CLOSE],
        env={**os.environ, LIBRARY_VARIABLE: str(library)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as link:
        assert link.stdout is not None
        try:
            assert link.stdout.readline() == "open\n"
            run("ip", "-n", ours, "address", "flush", "dev", "eth0")
            link.communicate("close\n", timeout=30)
        finally:
            link.kill()
    assert link.returncode == 0
