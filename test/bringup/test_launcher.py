"""What the launcher shows of its processes: lines as they come, and one line that is live."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
import typer

from sim2real_deploy.cli.up import up

pytestmark = pytest.mark.usefixtures("hang_ups_are_heard")
LAUNCH = textwrap.dedent("""
    import sys
    from sim2real_deploy.bringup import launcher
    from sim2real_deploy.bringup.graph import Process

    launcher.command_line = lambda *_: [sys.executable, "-c", sys.argv[1]]
    sys.exit(launcher.Launcher([Process("some", essential=True)]).run())
""")

STATUS = "import time; print('\\rgoing 1'); print('\\rgoing 2'); time.sleep(1); print('done')"
JUDGE = """
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit({code}))
print("ready")
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def hears_hangups():
    """Also where the tests themselves were started with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def shown(terminal: str) -> str:
    """What a launcher writes, at a kind of terminal or, where that is "", into a pipe."""
    command, environment = [sys.executable, "-c", LAUNCH, STATUS], {**os.environ, "TERM": terminal}
    if not terminal:
        return subprocess.run(command, capture_output=True, text=True).stdout
    ours, theirs = os.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 4096):
            written += chunk
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait(20) == 0
    return written.decode()


@pytest.mark.parametrize("terminal", ["", "dumb"])
def test_where_no_line_can_be_replaced_a_status_is_a_line_like_any_other(terminal):
    lines = [line.split() for line in shown(terminal).splitlines()]
    assert lines == [["some", "going", "1"], ["some", "going", "2"], ["some", "done"]]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals")
def test_at_a_terminal_a_status_replaces_the_one_before():
    written = shown("xterm")
    assert "going 2" in written
    assert "some going" not in written.replace("\x1b[0m", "").replace("\x1b[36m", "")
    assert any(line.strip().endswith("done") for line in written.splitlines())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("code", [0, 3])
def test_an_interrupted_bring_up_ends_as_its_processes_judge(number, code):
    command = [sys.executable, "-c", LAUNCH, JUDGE.format(code=code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert "ready" in process.stdout.readline()
        process.send_signal(signal.SIGTSTP)  # Ctrl-Z: a launcher that is paused could stop nothing
        process.send_signal(number)
        assert process.wait(20) == code


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals")
def test_a_terminal_that_is_gone_ends_the_processes_in_order(tmp_path):
    """With it goes what the launcher writes: that must not keep it from stopping them."""
    some = f"""
import signal, sys, time, pathlib
def end(*_):
    pathlib.Path({str(tmp_path / "ended")!r}).touch()
    sys.exit(0)
signal.signal(signal.SIGINT, end)
print("ready", flush=True)
while True:
    print("and more", flush=True)
    time.sleep(0.01)
"""
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", LAUNCH, some]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        shown = b""
        while b"ready" not in shown:
            shown += os.read(ours, 4096)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(20) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize(("domain", "ros"), [("77", "5"), ("free", None)])
def test_both_domains_are_said(domain: str, ros: str | None, monkeypatch, capsys) -> None:
    """`domain:=` is the robot's bus alone; `free` chooses one number for both."""
    monkeypatch.setenv("ROS_DOMAIN_ID", "5")
    monkeypatch.setattr("sim2real_deploy.bringup.launcher.Launcher.run", lambda _self: 0)
    with pytest.raises(typer.Exit):
        up("go2_walk", [f"domain:={domain}"], show_args=False)
    bus, said = re.findall(r"\d+", capsys.readouterr().out)[:2]
    assert said == (ros or bus)
    assert bus == domain or domain == "free"
