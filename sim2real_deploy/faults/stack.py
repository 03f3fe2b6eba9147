"""The whole stack for a fault campaign: real processes on their own domain, and the twin.

The twin runs in this process, so that the time of a fault is known to within a period. All other
processes are the same as on the robot.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.faults.cable import Cable
from sim2real_deploy.faults.wire_watch import WireWatch
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.geometry import tilt
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.on_wire import TwinOnWire
from sim2real_deploy.twin.robot import TwinRobot
from sim2real_deploy.wire.remote import Remote

Commands = Mapping[str, Sequence[str]]
LOOPBACK = "lo"
OPERATOR = "fault_operator"
FILLING = "filling"  # the file that fills the disk
WALK = (0.4, 0.0, 0.0)
STEP_S = 60.0  # for a process to start
RECOVERY_S = 60.0  # for the robot to walk again
# Alerts that last a second or two longer than their cause.
ALERTS = {"recorder_gone", "disk_low", "stranger", "remote_lost", "mode_unknown"}
FALLEN_RAD = 0.4
# This process has real-time priority for the twin; its children must not inherit it.
ORDINARY = ("chrt", "--other", "0") if shutil.which("chrt") else ()
MODE_S = 4.0  # for a change of mode
SPEED_UP_S = 1.2  # of walking, before a fault
ERROR_LINES = 15


class Stack:
    """Twin, supervisor, control, recorder, and an operator node.

    `commands` are the processes' command lines by name, including the operator's; with a cable they
    run at its far end.
    """

    def __init__(
        self,
        folder: Path,
        robot: RobotSpec,
        domain: int,
        ros_domain: int,
        commands: Commands,
        cable: Cable | None = None,
        adaptation: str = "none",
    ) -> None:
        self.folder = folder
        self.adaptation = adaptation
        self.cable = cable
        self.interface = cable.interface if cable else LOOPBACK
        self.runs = folder / "runs"
        self.robot = robot
        self.domain = domain
        self._commands = commands
        self._environment = os.environ | {
            "ROS_DOMAIN_ID": str(ros_domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "XDG_RUNTIME_DIR": str(folder),
        }
        body = TwinRobot(self.robot, imperfections=load_imperfections(robot=robot.name))
        self.twin = TwinOnWire(body, self.interface, domain)
        self.watch = WireWatch(self.robot, self.interface, domain)
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.twin.start()

    def close(self) -> None:
        for process in reversed(tuple(self.running.values())):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.watch.close()
        self.twin.close()

    # processes

    def start(self, name: str) -> None:
        """Start this process unless it runs."""
        known = self.running.get(name)
        if known is None or known.poll() is not None:
            self._run(name, self._commands[name])

    def swap(self, name: str, module: str) -> None:
        """Kill this process and run another module in its place, until that one ends."""
        self.running[name].kill()
        self.running[name].wait(STEP_S)
        usual = f"sim2real_deploy.nodes.{name}"
        self._run(name, [module if word == usual else word for word in self._commands[name]])

    def _run(self, name: str, command: Sequence[str]) -> None:
        hands = name == OPERATOR
        with (self.folder / f"{name}.log").open("a") as log:
            self.running[name] = subprocess.Popen(
                [*ORDINARY, *(self.cable.prefix if self.cable else ()), *command],
                env=self._environment,
                stdin=subprocess.PIPE if hands else subprocess.DEVNULL,
                stdout=subprocess.PIPE if hands else log,
                stderr=log,
                text=True,
            )

    def signal(self, name: str, number: signal.Signals) -> int:
        """Send a signal; returns when."""
        now_ns = time.monotonic_ns()
        self.running[name].send_signal(number)
        return now_ns

    # the operator

    def ask(self, **request: Any) -> dict[str, Any]:
        operator = self.running[OPERATOR]
        assert operator.stdin is not None
        assert operator.stdout is not None
        operator.stdin.write(json.dumps(request) + "\n")
        operator.stdin.flush()
        line = operator.stdout.readline()
        if not line:
            raise Refusal(f"the operator of the campaign ended:\n{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def call(self, *services: str) -> int:
        """Call services all at once; returns when."""
        return int(self.ask(calls=list(services))["start_ns"])

    def succeeds(self, service: str) -> bool:
        return all(done for done, _ in self.ask(calls=[service])["answers"])

    def until(self, what: str, condition: Callable[[], bool], patience_s: float = STEP_S) -> None:
        deadline = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > deadline:
                view = json.dumps(self.ask(view=True))
                raise Refusal(f"not in {patience_s:g} s: {what}; {view}\n{self._last_words()}")
            time.sleep(0.1)

    @property
    def mode(self) -> str:
        return str(self.ask(view=True)["mode"])

    @property
    def events(self) -> Mapping[str, int]:
        """Events reported since the last recovery, each with when it first was (monotonic ns)."""
        events: dict[str, int] = self.ask(view=True)["events"]
        return events

    # the twin

    def change(self, action: Callable[[TwinRobot], object]) -> int:
        """Change the twin between two periods; returns when."""

        def timed(twin: TwinRobot) -> int:
            now_ns = time.monotonic_ns()
            action(twin)
            return now_ns

        self.twin.check()
        return self.twin.ask(timed)

    def set_on_its_feet(self) -> None:
        def upright(twin: TwinRobot) -> None:
            twin.clear_faults()
            twin.hold_remote(Remote())
            base = np.array([0, 0, np.nan, 1, 0, 0, 0])
            pose = self.robot.stand_pose.astype(float)
            twin.place(base, np.zeros(6), pose, np.zeros(self.robot.joint_count))

        self.change(upright)

    def recover(self) -> None:
        """Back to walking, whatever the fault has left behind."""
        self._make_room()
        self.change(lambda twin: twin.clear_faults())
        self.change(lambda twin: twin.hold_remote(Remote()))
        self.until("all processes run", self.all_run)
        self.until("no alert", lambda: not ALERTS & self._active())
        self.until("a recording", lambda: self.ask(view=True)["safety"]["recorder"] == "recording")
        self.until("walking", self._walk_again, RECOVERY_S)
        self.ask(velocity=WALK)
        time.sleep(SPEED_UP_S)
        self.ask(forget=True)

    def _make_room(self) -> None:
        """Free the disk, and restart a recorder that had stopped for lack of space."""
        filling = self.runs / FILLING
        if filling.exists():
            filling.unlink()
            recorder = self.running["recorder"]
            recorder.send_signal(signal.SIGINT)
            recorder.wait(STEP_S)

    def stopped_by(self) -> str:
        """Why it no longer walks; "" while it does."""
        if self._walks():
            return ""
        view = self.ask(view=True)
        return str(view["safety"].get("message") or f"control is {view['mode']}")

    def _active(self) -> set[str]:
        return set(self.ask(view=True)["safety"]["events"].split(", "))

    def all_run(self) -> bool:
        """Start or continue all processes; True once the supervisor has reported."""
        for name in self._commands:
            self.start(name)
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
        return bool(self.ask(view=True)["safety"])

    def _walks(self) -> bool:
        """Judged by the wire as well, because latched topics outlive their process."""
        view, last = self.ask(view=True), self.watch.commands
        moving = bool(last) and not last[-1].damping and time.monotonic_ns() - last[-1].ns < 5e7
        return bool(moving and view["mode"] == "walking" and view["safety"]["stop"] == "none")

    def _walk_again(self) -> bool:
        """One attempt; the caller repeats it."""
        self.all_run()
        if self._walks():
            return True
        if self.twin.ask(lambda twin: tilt(twin.base_truth.quaternion)) > FALLEN_RAD:
            self.set_on_its_feet()
            time.sleep(0.5)
        at_rest = self.ask(view=True)["safety"].get("control") in ("damping", "passive")
        if not at_rest or not self.succeeds("reset"):
            return False
        self.ask(velocity=None)  # walking begins with sticks at rest
        self.set_on_its_feet()
        return (
            self.succeeds("stand")
            and self._comes_to("standing")
            and self.succeeds("walk")
            and self._comes_to("walking")
        )

    def _comes_to(self, mode: str) -> bool:
        deadline = time.monotonic() + MODE_S
        while self.mode != mode and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.mode == mode

    def _last_words(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        tails = [(log.name, log.read_text(errors="replace").splitlines()) for log in logs]
        return "\n".join(f"{name}: {line}" for name, ls in tails for line in ls[-ERROR_LINES:])
