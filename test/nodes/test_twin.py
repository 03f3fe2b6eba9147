"""The twin as processes: the command without ROS, and the node with its faults and its truth."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sim2real_deploy.errors import Refusal
from sim2real_deploy.twin.headless import choose_renderer
from support.wire_support import free_domain

COMMAND = [sys.executable, "-c", "from sim2real_deploy.cli import main; main()", "twin"]


def sim2real_twin(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "--domain", str(free_domain()), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_command_runs_for_its_time_and_writes_a_video(tmp_path: Path) -> None:
    pytest.importorskip("imageio")
    video = tmp_path / "twin.mp4"
    ended = sim2real_twin("--duration", "0.5", "--preset", "ideal", "--video", str(video))
    if "cannot draw here" in ended.stderr:
        pytest.skip(ended.stderr.strip())
    assert ended.returncode == 0, ended.stderr
    assert "Unitree Go2 twin on 'lo'" in ended.stdout
    assert video.stat().st_size > 1000


def test_the_command_ends_cleanly_on_a_signal() -> None:
    arguments = [*COMMAND, "--domain", str(free_domain())]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "twin on" in process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--floor", "lava"),
            "there are: flat, rough, slope, stairs,",
        ),
        (("--preset", "broken"), "there are: ideal, default"),
        (("--interface", "warp9"), "network interface 'warp9' does not exist"),
        (("--fault", "{fault: {target: imu, word: shy}}"), "'shy' cannot happen"),
    ],
)
def test_mistakes_are_refused_in_words(arguments: tuple[str, ...], words: str) -> None:
    ended = sim2real_twin(*arguments)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("renderer", "words"),
    [("crayons", "set it to one of glfw, egl, osmesa"), ("osmesa", "install libosmesa6")],
)
def test_a_renderer_that_is_not_there_is_refused_in_words(
    renderer: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUJOCO_GL", renderer)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(Refusal, match=words):
        choose_renderer()


@pytest.fixture
def node_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    pytest.importorskip("rclpy")
    domain = str(free_domain())
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    arguments = ["--ros-args", "-p", f"domain:={domain}", "-p", "preset:=ideal"]
    arguments += ["-p", "publish_clock:=true", "-p", "policy:=go2_walk,go2_perceptive"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sim2real_deploy.nodes.twin", *arguments],
        env=dict(os.environ),
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0


def test_the_node_takes_faults_and_tells_the_truth(node_process: subprocess.Popen[str]) -> None:
    import rclpy
    from geometry_msgs.msg import Vector3, Wrench
    from nav_msgs.msg import Odometry
    from rosgraph_msgs.msg import Clock
    from std_msgs.msg import Float32MultiArray, String
    from std_srvs.srv import Trigger

    from sim2real_deploy.nodes.common import LATCHED, SENSOR

    rclpy.init()
    node = rclpy.create_node("test_twin")
    seen: dict[str, Any] = {}
    ticks: list[Any] = []
    try:
        node.create_subscription(Odometry, "twin/odom", lambda m: seen.update(odom=m), SENSOR)
        node.create_subscription(
            String, "twin/faults", lambda m: seen.update(faults=json.loads(m.data)), LATCHED
        )
        node.create_subscription(
            Float32MultiArray, "policy/height_scan", lambda m: seen.update(scan=m.data), 1
        )
        fault = node.create_publisher(String, "twin/fault", 10)
        push = node.create_publisher(Wrench, "twin/push", 10)
        clear = node.create_client(Trigger, "twin/clear_faults")

        def until(condition: Any, act: Any = lambda: None) -> None:
            deadline = time.monotonic() + 60
            while not condition():
                assert time.monotonic() < deadline, f"never came; seen: {seen}"
                act()
                for _ in range(5):
                    rclpy.spin_once(node, timeout_sec=0.1)

        node.create_subscription(Clock, "/clock", lambda m: ticks.append(m.clock), SENSOR)
        until(lambda: "odom" in seen and seen.get("faults") == [] and len(ticks) > 10)
        seconds = [tick.sec + tick.nanosec / 1e9 for tick in ticks]
        assert seconds == sorted(seconds)
        assert 0 < seconds[-1] < 60  # the twin's, from its start
        assert 0.05 < seen["odom"].pose.pose.position.z < 0.2
        assert seen["odom"].header.frame_id == "world"
        until(lambda: "scan" in seen)
        assert len(seen["scan"]) == 17 * 5  # go2_perceptive's grid
        above = seen["odom"].pose.pose.position.z - 0.3
        assert statistics.mean(seen["scan"]) == pytest.approx(above, abs=0.02)
        asked = {"target": "motor", "word": "off", "joint": "FL_calf_joint"}
        until(
            lambda: seen["faults"] == [asked],
            lambda: fault.publish(String(data=json.dumps({"fault": asked}))),
        )
        fault.publish(String(data="{fault: {target: motor, word: tired}}"))  # refused, lives on
        until(
            lambda: abs(seen["odom"].twist.twist.linear.y) > 0.1,
            lambda: push.publish(Wrench(force=Vector3(y=400.0))),
        )
        assert clear.wait_for_service(timeout_sec=60)
        answer = clear.call_async(Trigger.Request())
        until(answer.done)
        assert answer.result().success
        until(lambda: seen["faults"] == [])
    finally:
        node.destroy_node()
        rclpy.shutdown()


@pytest.mark.parametrize("missing", ["mujoco", "numba"])
def test_without_the_simulation_extra_the_command_says_what_to_install(missing: str) -> None:
    call = f"import sys; sys.modules['{missing}'] = None; sys.argv[0] = 'sim2real'\n"
    call += "from sim2real_deploy.cli import main; main()"
    said = subprocess.run(
        [sys.executable, "-c", call, "twin"], capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 2
    packages = "'mujoco' 'numba' 'imageio[ffmpeg]'"
    assert said.stderr.strip() == f"this needs {missing}: pip install {packages}"
