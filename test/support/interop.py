"""A real peer on the robot's own DDS version, and two hosts joined by a cable, as fixtures."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.wire_support import DATA


def run(*command: str, **kwargs: object) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, **kwargs)  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The peer, compiled against the system's library."""
    for tool, package in (("idlc", "cyclonedds-tools"), ("gcc", "gcc"), ("ip", "iproute2")):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here: apt-get install {package}")
    if not Path("/usr/include/dds/dds.h").exists():
        pytest.skip("no Cyclone DDS headers here: apt-get install cyclonedds-dev")
    version = subprocess.run(["idlc", "-v"], capture_output=True, text=True).stdout
    if "0.10.2" not in version:
        pytest.skip(f"the system's Cyclone DDS is not the robot's 0.10.2: {version.strip()}")
    build = tmp_path_factory.mktemp("peer")
    run("idlc", str(DATA / "unitree_go.idl"), cwd=build)
    sources = [str(DATA / "peer.c"), str(build / "unitree_go.c")]
    run("gcc", "-O2", "-I", str(build), *sources, "-o", str(build / "peer"), "-lddsc")
    return build / "peer"


@pytest.fixture
def networks() -> Iterator[tuple[str, str]]:
    """Two network namespaces joined by a cable, each with the end called eth0."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    names = (f"robot{os.getpid()}", f"ours{os.getpid()}")
    try:
        try:
            for name in names:
                run("ip", "netns", "add", name)
            ends = ("eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0")
            run("ip", "link", "add", *ends, "netns", names[1])
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        for number, name in enumerate(names, start=1):
            run("ip", "-n", name, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
