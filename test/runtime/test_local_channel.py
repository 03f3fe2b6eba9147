"""The local datagram channel, between real sockets and processes."""

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.runtime import local_channel
from sim2real_deploy.runtime.local_channel import (
    MOST_RECEIVED,
    LocalChannel,
    run_directory,
)


def test_datagrams_go_both_ways_whole_and_in_order(tmp_path: Path) -> None:
    with (
        LocalChannel(tmp_path, "control", "safety") as control,
        LocalChannel(tmp_path, "safety", "control") as safety,
    ):
        assert control.receive() == []
        assert all(safety.send(bytes([n]) * 100) for n in range(5))
        assert control.receive() == [bytes([n]) * 100 for n in range(5)]
        assert control.send(b"back")
        assert safety.receive() == [b"back"]


def test_nobody_there_is_no_error(tmp_path: Path) -> None:
    with LocalChannel(tmp_path, "control", "safety") as control:
        assert control.send(b"hello") is False
        LocalChannel(tmp_path, "safety", "control").close()
        assert control.send(b"hello") is False


def test_a_peer_that_does_not_read_never_blocks_the_sender(tmp_path: Path) -> None:
    with (
        LocalChannel(tmp_path, "control", "safety") as control,
        LocalChannel(tmp_path, "safety", "control"),
    ):
        sent = [control.send(bytes(1000)) for _ in range(5000)]
    assert sent[0] is True
    assert sent[-1] is False


def test_only_this_user_can_speak(tmp_path: Path) -> None:
    with LocalChannel(tmp_path, "control", "safety") as control:
        mode = stat.S_IMODE((tmp_path / "control.sock").stat().st_mode)
        assert mode == 0o600
        assert control.fileno() > 0
    assert not (tmp_path / "control.sock").exists()
    control.close()


def test_a_second_process_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with LocalChannel(tmp_path, "control", "safety"):
        with pytest.raises(Refusal, match="another 'control' process is running"):
            LocalChannel(tmp_path, "control", "safety")
        with LocalChannel(tmp_path, "safety", "control") as safety:
            assert safety.send(b"still the first one's")


def test_the_socket_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path;"
        "from sim2real_deploy.runtime.local_channel import LocalChannel;"
        "c = LocalChannel(Path(sys.argv[1]), 'control', 'safety'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert (tmp_path / "control.sock").exists()
    with (
        LocalChannel(tmp_path, "control", "safety") as control,
        LocalChannel(tmp_path, "safety", "control") as safety,
    ):
        assert safety.send(b"x")
        assert control.receive() == [b"x"]


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="set XDG_RUNTIME_DIR shorter"):
        LocalChannel(tmp_path / ("x" * 100), "control", "safety")


def test_robots_meet_by_namespace_and_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    first = run_directory("/", 0)
    assert first == run_directory("", 0)
    others = {run_directory("/dog", 0), run_directory("/dog/a", 0), run_directory("/", 1), first}
    assert len(others) == 4
    for directory in others:
        assert directory.is_relative_to(tmp_path)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert directory.stat().st_uid == os.getuid()


def test_of_two_that_start_in_one_moment_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither hears the other listen yet. The second once took the first one's socket: control
    then answered a supervisor that nobody heard."""
    monkeypatch.setattr(local_channel, "_somebody_listens", lambda _: False)
    with LocalChannel(tmp_path, "safety", "control"):
        with pytest.raises(Refusal, match="another 'safety' process is running"):
            LocalChannel(tmp_path, "safety", "control")
        assert (tmp_path / "safety.sock").exists()
        LocalChannel(tmp_path, "control", "safety").close()
    LocalChannel(tmp_path, "safety", "control").close()


def test_a_folder_that_others_may_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may replace a socket answers in control's place."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = run_directory("/", 0)
    for folder in (directory, directory.parent):
        folder.chmod(0o770)
        with pytest.raises(Refusal, match=f"chmod 700 {folder}"):
            run_directory("/", 0)
        folder.chmod(0o700)
    assert run_directory("/", 0) == directory


def test_without_a_runtime_directory_there_is_one_under_tmp(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert run_directory("/", 0).is_relative_to(f"/tmp/run-{os.getuid()}")


@pytest.mark.timeout(20)
def test_a_peer_that_never_stops_sending_does_not_keep_us(tmp_path: Path) -> None:
    """A control gone wild must not be able to stop the supervisor that watches it."""
    with LocalChannel(tmp_path, "safety", "control") as safety:
        own = safety._socket
        safety._socket = SimpleNamespace(recv=lambda _: b"answer")  # type: ignore[assignment]
        heard = safety.receive()
        safety._socket = own
    assert heard == [b"answer"] * MOST_RECEIVED
