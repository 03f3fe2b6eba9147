"""The checks of a process that can move a real robot, however it was started.

A bring-up makes the same checks before it starts anything. Because they are repeated here, neither
a parameter file nor a node started by hand gets past clearance or the safety chain.
"""

from pathlib import Path

from sim2real_deploy.errors import Refusal

LOOPBACK = "lo"
TWIN = "twin"  # the name of a twin's participant on the robot's bus


def check_wire(interface: str, clock: str, supervised: bool = True) -> None:
    """Beyond this machine there may be a robot: nothing runs there unsupervised or on a twin's
    time."""
    if interface == LOOPBACK:
        return
    if not supervised:
        raise Refusal(
            f"supervised:=false on interface '{interface}': without the safety supervisor control "
            f"runs on '{LOOPBACK}' alone, against a twin"
        )
    if clock:
        raise Refusal(
            f"clock:={clock} on interface '{interface}': a clock that may wait belongs to a twin "
            f"on '{LOOPBACK}'; a robot's time never waits"
        )


def check_foreign_simulator(interface: str, foreign: bool) -> None:
    """A simulator without motion switcher, battery and remote is accepted on this machine only."""
    if foreign and interface != LOOPBACK:
        raise Refusal(
            f"foreign_simulator:=true on interface '{interface}': a simulator without motion "
            f"switcher, battery and remote is taken on '{LOOPBACK}' alone; off this machine there "
            "may be a robot, which has all three"
        )


def check_policy(
    interface: str,
    real: bool,
    robot: str,
    policy: str,
    stage: str,
    runs: Path,
    last_run: str,
    waiver: str,
) -> None:
    """Refuse a policy that has not earned this stage; on a twin any may walk."""
    if is_real(interface, real):
        from sim2real_deploy.gate.clearance import check_clearance
        from sim2real_deploy.preflight.measure import check_measured

        check_clearance(policy, robot, stage, runs, last_run, waiver)
        check_measured(stage, runs, robot)


def is_real(interface: str, real: bool) -> bool:
    """Whether this may be a real robot; on the loopback there is none."""
    return real and interface != LOOPBACK


def check_robot(interface: str, real: bool, name: str) -> None:
    """If the robot is declared a twin, its states must come from one; `name` is their sender."""
    if interface != LOOPBACK and not real and name != TWIN:
        raise Refusal(
            f"the states on '{interface}' come from '{name or 'an unnamed program'}' and not from "
            "a twin: a real robot is started with robot:=real"
        )
