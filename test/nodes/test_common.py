"""The shell of every node process: a signal ends it in order, a mistake ends it in words."""

import os
import signal
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import pytest

from sim2real_deploy.paths import config_file
from support.places import ROOT

pytest.importorskip("rclpy", reason="rclpy is not installed: pip install -e '.[ros]'")

NODE = textwrap.dedent("""
    from rclpy.node import Node
    from sim2real_deploy.nodes.common import WIRE, declare, run

    class Some(Node):
        def __init__(self):
            super().__init__("some")
            print(declare(self, WIRE)["domain"], flush=True)

        def close(self):
            print("closed", flush=True)

    run(lambda stop: [Some()])
""")


@pytest.fixture(autouse=True)
def hears_hangups():
    """Also where the tests themselves were started with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def start(*arguments: str, before: Sequence[str] = (), **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [*before, sys.executable, "-c", NODE, "--ros-args", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF", **environment},
    )


ENDS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


@pytest.mark.usefixtures("hang_ups_are_heard")
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_closes_the_nodes(number):
    """A terminal or an SSH connection that is lost is one: SIGHUP once killed control and
    supervisor in the same moment, and left the robot with the last command of its walk."""
    process = start("-p", "domain:=7")
    assert process.stdout.readline() == "7\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=20)
    assert out == "closed\n"
    assert process.returncode == 0


def test_nothing_pauses_a_node():
    """Ctrl-Z reaches control and supervisor alike."""
    process = start("-p", "domain:=7")
    assert process.stdout.readline() == "7\n"
    for number in (signal.SIGTSTP, signal.SIGTTOU):
        process.send_signal(number)
    process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out == "closed\n"


def test_a_node_started_with_nohup_outlives_its_terminal():
    process = start("-p", "domain:=7", before=["nohup"])
    assert process.stdout.readline() == "7\n"
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.0)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "closed\n"


UNREAD = textwrap.dedent("""
    import sys, rclpy
    from sim2real_deploy.nodes.common import wait_for_no_log
    wait_for_no_log()
    rclpy.init(args=sys.argv)
    log = rclpy.create_node("loud").get_logger()
    for _ in range(3000):
        log.warning("a line that nobody reads, and then some more of it")
    open(sys.argv[1], "w").write("done")
""")


def test_a_log_that_nobody_reads_holds_nothing_up(tmp_path):
    """It holds the interpreter meanwhile: behind a launcher that was stopped, or a terminal that
    hung, the supervisor and the control loop stood still."""
    command = [sys.executable, "-c", UNREAD, str(tmp_path / "done")]
    environment = {
        **os.environ,
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF",
        "ROS_LOG_DIR": str(tmp_path),
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            process.wait(60)
        finally:
            process.kill()
    assert (tmp_path / "done").read_text() == "done"
    assert [path.name for path in tmp_path.iterdir()] == ["done"], "a busy disk holds it up, too"


@pytest.mark.parametrize("value", ["400", "-1", "abc", "1.5"])
def test_a_bad_parameter_is_refused_by_name(value):
    out, err = start("-p", f"domain:={value}").communicate(timeout=20)
    assert "domain" in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_a_parameter_that_is_no_number_is_refused(value):
    """NaN is inside of any range: as a rate it made the mirror spin."""
    node = NODE.replace("WIRE)", "RATE)").replace('["domain"]', '["rate"]')
    rate = 'from sim2real_deploy.nodes.common import Parameter\nRATE = [Parameter("rate", 1.0, "")]'
    process = subprocess.run(
        [sys.executable, "-c", f"{rate}\n{node}", "--ros-args", "-p", f"rate:={value}"],
        env={**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert "parameter 'rate' is" in process.stderr
    assert "Traceback" not in process.stderr
    assert process.returncode == 2


TIMED = textwrap.dedent("""
    import rclpy
    from rclpy.parameter import Parameter
    from sim2real_deploy.nodes.common import every
    rclpy.init()
    simulated = Parameter("use_sim_time", value=True)
    node = rclpy.create_node("timed", parameter_overrides=[simulated])
    every(node, 0.01, lambda: print("told", flush=True))
    for _ in range(3):
        rclpy.spin_once(node, timeout_sec=5.0)
""")


def test_what_a_node_tells_waits_for_no_other_clock():
    """`ros2 param set ... use_sim_time true`, or a wall clock that was set back, silenced the
    supervisor: its state, its log, and that its own loop had failed."""
    environment = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}
    told = subprocess.run(
        [sys.executable, "-c", TIMED], env=environment, capture_output=True, text=True, timeout=60
    )
    assert told.stdout.count("told") >= 2, told.stderr
    for module in (ROOT / "sim2real_deploy" / "nodes").rglob("*.py"):
        if module.name != "common.py":
            assert "create_timer(" not in module.read_text(encoding="utf-8"), module


def test_a_node_whose_launcher_is_gone_does_not_start():
    process = start(SIM2REAL_LAUNCHER_PID="1")
    _, err = process.communicate(timeout=20)
    assert "the process that started this one has ended" in err
    assert process.returncode == 1


def transports(**environment: str) -> set[str]:
    """The kinds of transport on which a node process listens, by the names of its threads."""
    process = start("-p", "domain:=7", **environment)
    assert process.stdout.readline() == "7\n"
    tasks = Path(f"/proc/{process.pid}/task")
    names = {(task / "comm").read_text().strip() for task in tasks.iterdir()}
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    return {name.split(".")[1] for name in names if name.startswith(("dds.udp", "dds.shm"))}


@pytest.mark.parametrize("discovery", ["LOCALHOST", "SUBNET"])
def test_nodes_talk_by_sockets_and_share_no_memory(discovery):
    assert transports(ROS_AUTOMATIC_DISCOVERY_RANGE=discovery) == {"udp"}


LIST_NODES = textwrap.dedent("""
    import time, rclpy
    rclpy.init()
    node = rclpy.create_node("onlooker")
    deadline = time.monotonic() + 6
    while "some" not in node.get_node_names() and time.monotonic() < deadline:
        time.sleep(0.1)
    print("some" in node.get_node_names())
""")


@pytest.mark.parametrize(("where", "found"), [("same computer", True), ("network", False)])
def test_a_stack_is_found_on_its_computer_and_not_from_the_network(
    networks: tuple[str, str], where: str, found: bool
) -> None:
    """Whichever Fast DDS: the name of the variable that it reads its profile from has changed."""
    here, there = networks
    arguments = ["ip", "netns", "exec", here, sys.executable, "-c", NODE]
    environment = {**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    node = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert node.stdout is not None
        assert node.stdout.readline() == "0\n"
        seen = subprocess.run(
            ["ip", "netns", "exec", here if found else there, sys.executable, "-c", LIST_NODES],
            env={**os.environ, "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        node.kill()
        node.wait()
    assert seen.stdout == f"{found}\n", seen.stderr


def test_types_are_matched_by_name_alone() -> None:
    """What Fast DDS 3 asks about types, Cyclone DDS on the same domain answers, too, and wrongly:
    a subscriber may then never hear its publisher."""
    tree = ElementTree.parse(config_file("fastdds_localhost.xml"))
    space = {"dds": "http://www.eprosima.com"}
    (entry,) = tree.iterfind(".//dds:participant//dds:property", space)
    name, value = (entry.findtext(f"dds:{part}", "", space) for part in ("name", "value"))
    assert (name, value) == ("fastdds.type_propagation", "disabled")


def test_who_says_how_fast_dds_talks_is_obeyed():
    said = {"FASTDDS_BUILTIN_TRANSPORTS": "DEFAULT", "ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}
    assert transports(**said) == {"udp", "shm"}


def test_the_first_code_that_is_not_zero_counts():
    from sim2real_deploy.nodes.common import ProcessEnd

    told, asked = ProcessEnd(), []
    told.on_request(lambda: asked.append(1))
    for code in (0, 3, 0, 2):
        told.request(code)
    assert told.exit_code == 3
    assert asked == [1]
