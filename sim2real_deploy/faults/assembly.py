"""Assembles the stack that a fault campaign breaks: disk, cable, twin and processes."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sim2real_deploy.bringup.graph import GO2_WALK, Process, go2_walk, resolve
from sim2real_deploy.bringup.node_process import command_line
from sim2real_deploy.faults.cable import Cable, can_be_laid
from sim2real_deploy.faults.faulty_policy import write_faulty_policy
from sim2real_deploy.faults.stack import Stack
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.runtime.realtime import (
    calm_interpreter,
    prefer_interpreter,
    prefer_this_process,
)
from sim2real_deploy.wire.domains import free_domain

DISK_BYTES = 3_000_000_000  # memory, used only as the bag grows


@contextmanager
def whole_stack(robot: str, policy: str, adaptation: str = "none") -> Iterator[tuple[Stack, bool]]:
    """The processes of a bring-up and the twin; the flag tells whether the bag has its own disk.

    If a virtual cable can be made, the processes run at its far end.
    """
    spec = load_robot(robot)
    bundle = load_bundle(policy, spec)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does, with a table
    prefer_this_process()
    domain = free_domain()
    folder = Path(tempfile.mkdtemp(prefix="sim2real-faults-"))
    small_disk = _mount_small_disk(folder / "runs")
    cable = Cable() if can_be_laid() else None
    commands = _commands(folder, domain, bundle, cable, adaptation)
    prefer_interpreter()
    stack = Stack(folder, spec, domain, domain + 100, commands, cable, adaptation)
    try:
        calm_interpreter()
        yield stack, small_disk
    finally:
        stack.close()
        if cable is not None:
            cable.close()
        if small_disk:
            subprocess.run(["umount", str(folder / "runs")], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mount_small_disk(folder: Path) -> bool:
    """A disk for the bag alone, small enough to be filled; only root can mount it."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _commands(
    folder: Path, domain: int, bundle: Bundle, cable: Cable | None, adaptation: str
) -> dict[str, list[str]]:
    """A bring-up's processes without the twin, which the campaign runs itself, and with the clock
    of a real robot, as the stack runs there."""
    faulty = folder / "policy"
    write_faulty_policy(bundle, faulty)
    given = {"model": bundle.spec.name, "policy": str(faulty), "stage": "indoor"}
    given |= {"domain": str(domain), "dashboard": "true", "adaptation": adaptation}
    given["interface"] = cable.far_interface if cable else "lo"
    given["runs"] = str(folder / "runs")
    graph = [
        replace(process, parameters={k: v for k, v in process.parameters.items() if k != "clock"})
        for process in go2_walk(resolve(GO2_WALK, given))
        if process.name != "twin"
    ]
    graph.append(Process("fault_operator", {"robot": bundle.spec.name}))
    return {process.name: command_line(process) for process in graph}
