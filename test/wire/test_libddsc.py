"""Which Cyclone DDS is loaded, and what is said where none will do."""

import ctypes
import ctypes.util
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire import libddsc


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (libddsc.LIBRARY_VARIABLE, "CYCLONEDDS_HOME", "AMENT_PREFIX_PATH"):
        monkeypatch.delenv(name, raising=False)


def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(libddsc, "SYSTEM_FOLDERS", ())


def test_the_one_that_is_named_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(libddsc.LIBRARY_VARIABLE, "/opt/mine/libddsc.so")
    assert libddsc.find_library() == "/opt/mine/libddsc.so"


def test_without_a_wheel_that_of_ros_then_the_systems(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    no_wheel(monkeypatch)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: "libddsc.so.0debian")
    assert libddsc.find_library() == "libddsc.so.0debian"
    folder = tmp_path / "lib" / "aarch64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libddsc.so.0.10.5").touch()
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{tmp_path}")
    assert libddsc.find_library() == str(folder / "libddsc.so.0.10.5")


def test_a_machine_without_any_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    no_wheel(monkeypatch)
    no_system(monkeypatch)
    with pytest.raises(Refusal, match=r"no Cyclone DDS on this machine.*apt-get install"):
        libddsc.find_library()


def test_a_file_that_is_no_library_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "libddsc.so"
    path.write_text("not a library")
    with pytest.raises(Refusal, match=rf"{path}: not a library that loads here"):
        libddsc.Library(str(path))


def test_a_library_of_something_else_is_refused_by_what_it_lacks() -> None:
    other = ctypes.util.find_library("c")
    assert other is not None
    with pytest.raises(Refusal, match="has no function dds_"):
        libddsc.Library(other)


def test_the_structs_have_the_size_they_have_in_c() -> None:
    """As the headers of 0.10.2, 0.10.5 and 11.0.1 have them, on x86-64 and aarch64."""
    assert ctypes.sizeof(libddsc.TopicDescriptor) == 96
    assert libddsc.SAMPLE_INFO.size == 64
    assert libddsc.ENDPOINT.size == 64


def test_the_package_needs_no_python_binding() -> None:
    """Everything that opens a link imports where `cyclonedds` and the vendor's SDK cannot be."""
    pytest.importorskip("numba", reason="the twin is not installed")
    code = (
        "import sys\n"
        "sys.modules['cyclonedds'] = sys.modules['unitree_sdk2py'] = None\n"
        "import sim2real_deploy.wire.dds_link, sim2real_deploy.wire.motion_switcher\n"
        "import sim2real_deploy.twin.on_wire, sim2real_deploy.preflight.doctor\n"
    )
    environment = {**os.environ, libddsc.LIBRARY_VARIABLE: libddsc.find_library()}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
