"""The node graph as data: a bring-up's processes, their order and their parameters.

launch/*.launch.py and `sim2real up` both read it, so they cannot drift apart. Processes start in
this order and stop in reverse: control damps first, while supervisor and recorder still see it, and
the twin ends last.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path

from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install
from sim2real_deploy.runtime.world_clock import world_may_wait
from sim2real_deploy.topics import ODOMETRY, TRUTH

Value = str | int | float | bool
YES_NO = ("true", "false")
ADAPTS = ("none", "strength", "mrac", "velocity", "all")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a bring-up, as `ros2 launch` and `sim2real up` both show it."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """One node process: the module below nodes/ that it runs, and its ROS parameters."""

    name: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    essential: bool = False  # its end ends the bring-up
    respawn: bool = False  # restarted when it ends by itself


ROBOT = Argument(
    "robot",
    "twin",
    "Walk our twin, the real robot, or another project's simulator on this computer.",
    ("twin", "real", "simulator"),
)
MODEL = Argument("model", "go2", "Which robot it is: a file in config/robots.")
INTERFACE = Argument("interface", "lo", "Network interface the robot is on; needed for `real`.")
DOMAIN = Argument("domain", "0", "DDS domain of the robot's own bus (0 on the robot).")
NAMESPACE = Argument("namespace", "", "ROS namespace of all nodes, for more than one robot.")
PARAMS_FILE = Argument("params_file", "", "ROS parameter file applied to all nodes.")
FLOOR = Argument("floor", "flat", "What the twin walks on: flat, rough, stairs, stairs_20, gaps...")
PRESET = Argument("preset", "default", "Which twin: its name in config/twins, or ideal.")
DASHBOARD = Argument("dashboard", "false", "Serve a page on this machine's port 8080.", YES_NO)
SEED = Argument("seed", "0", "Seed of the twin's floor and noise.")

GO2_WALK = (
    ROBOT,
    MODEL,
    INTERFACE,
    DOMAIN,
    Argument("policy", "go2_walk", "Policy bundle: a name in policies/, or a folder."),
    Argument("policies", "", "Several instead, as go2_walk,go2_rough: the first one starts."),
    Argument("fallback", "", "The one of them that takes over when the active one fails."),
    Argument("stage", "tether", "How far it may go: a stage in config/stages.yaml."),
    Argument("adaptation", "none", "What it corrects while walking, if the stage allows.", ADAPTS),
    Argument("last_run", "", "Real, stages rise: the run one stage below; else found in runs."),
    Argument("ungated", "", "Real, no passing gate: say 'I accept an untested policy'."),
    Argument("record", "true", "Record everything into a bag; a real robot asks for it.", YES_NO),
    Argument("odom_source", "legs", "legs, or the topic of another program's Odometry."),
    Argument("dead_man", "", "Button of the remote to be held while it walks (R1, L1, ...)."),
    Argument("remote", "unitree", "What the robot's remote means: a file in config/pads."),
    Argument("gamepad", "xbox", "What a gamepad on `joy` means: a file in config/pads."),
    DASHBOARD,
    Argument("runs", "runs", "Folder that each run's bag and reports go into."),
    NAMESPACE,
    PARAMS_FILE,
    FLOOR,
    PRESET,
    SEED,
)
WALK_PROGRAMME = (
    *GO2_WALK,
    Argument("duration", "20", "Seconds of walking; 0 walks until Ctrl-C."),
)
REPLAY = (
    Argument("bag", "", "The run to play: its folder, or an .mcap file."),
    Argument("rate", "1", "Times real time."),
    Argument("start", "0", "Seconds into the run to start at."),
    Argument("loop", "false", "Begin again at the end.", YES_NO),
    DASHBOARD,
    MODEL,
    NAMESPACE,
    PARAMS_FILE,
)
TWIN = (MODEL, INTERFACE, DOMAIN, NAMESPACE, PARAMS_FILE, FLOOR, PRESET, SEED)


def resolve(arguments: tuple[Argument, ...], given: Mapping[str, str]) -> dict[str, str]:
    """Defaults with what was given on top; an unknown name or choice is refused by name."""
    if given.get("params_file"):
        from sim2real_deploy.bringup.params_file import check_params_file

        check_params_file(given["params_file"])
    known = {argument.name: argument for argument in arguments}
    for name, value in given.items():
        if name not in known:
            raise Refusal(f"there is no argument '{name}'; there are: {', '.join(known)}")
        choices = known[name].choices
        if choices and value not in choices:
            raise Refusal(f"{name}:={value}: it is one of {', '.join(choices)}")
    return {name: given.get(name, argument.default) for name, argument in known.items()}


def go2_walk(values: Mapping[str, str]) -> tuple[Process, ...]:
    """The whole stack for one robot, real or twin."""
    real = values["robot"] == "real"
    if real and values["interface"] == "lo":
        raise Refusal(
            "robot:=real needs interface:=NAME, the network interface that the robot is plugged "
            "into (`ip -brief address` lists them; the robot is 192.168.123.161)"
        )
    foreign = values["robot"] == "simulator"
    if foreign and values["interface"] != "lo":
        raise Refusal(
            f"robot:=simulator interface:={values['interface']}: a foreign simulator, which has no "
            "motion switcher, battery or remote, is taken on 'lo' alone; off this computer there "
            "may be a robot: robot:=real"
        )
    if real and values["record"] != "true":
        raise Refusal("record:=false: nothing a real robot does goes unrecorded")
    if real:
        _check_clearance(values)
    _check_adaptation(values)
    _check_policies(values)
    wire = _wire(values)
    twin = not real and not foreign
    world = {**wire, "clock": _clock() if twin else ""}
    stage, runs = {"stage": values["stage"]}, {"runs": values["runs"]}
    policy = {"policy": ",".join(_policies(values))}
    processes = [_twin(values, {**world, **policy})] if twin else []
    if values["record"] == "true":
        label = {"label": Path(next(iter(_policies(values)), "run")).name}
        recorder = {**wire, **stage, **policy, **runs, **label, "real": real}
        processes.append(Process("recorder", recorder, respawn=True))
    who: dict[str, Value] = {"real": real, "foreign_simulator": foreign}
    watch = {**world, **stage, **runs, **who, "recorded": real, "dead_man": values["dead_man"]}
    processes.append(Process("safety_supervisor", watch, essential=True))
    cleared = {name: values[name] for name in ("runs", "last_run", "ungated") if real}
    names = ("adaptation", "fallback", "remote", "gamepad", "odom_source")
    chosen = {name: values[name] for name in names}
    control = {**world, **stage, **policy, **who, **cleared, **chosen}
    processes.append(Process("control", control, essential=True))
    if values["dashboard"] == "true":
        processes.append(_dashboard(values["model"], values["stage"], real, policy))
    return tuple(processes)


def walk_programme(values: Mapping[str, str]) -> tuple[Process, ...]:
    """The stack, and an operator that walks a short programme and judges it."""
    duration = _number(values, "duration")
    truth = TRUTH if values["robot"] == "twin" else ODOMETRY
    operator: dict[str, Value] = {"robot": values["model"], "runs": values["runs"]}
    operator.update(duration=duration, truth=truth, recorded=values["record"] == "true")
    return (*go2_walk(values), Process("walk_programme", operator, essential=True))


def replay(values: Mapping[str, str]) -> tuple[Process, ...]:
    """A recorded run played into ROS; nothing of it reaches a robot."""
    if not values["bag"]:
        raise Refusal("replay needs bag:=FOLDER, the run to play")
    played: dict[str, Value] = {"bag": values["bag"], "loop": values["loop"] == "true"}
    played.update(rate=_number(values, "rate"), start=_number(values, "start"))
    player = Process("replay", played, essential=True)
    page = (_dashboard(values["model"], "", False),) if values["dashboard"] == "true" else ()
    return (player, *page)


def twin_alone(values: Mapping[str, str]) -> tuple[Process, ...]:
    return (_twin(values, _wire(values)),)


def _check_clearance(values: Mapping[str, str]) -> None:
    from sim2real_deploy.gate.clearance import check_clearance

    where = (values["model"], values["stage"], Path(values["runs"]))
    for policy in _policies(values) or ("",):
        check_clearance(policy, *where, values["last_run"], values["ungated"])


def _policies(values: Mapping[str, str]) -> tuple[str, ...]:
    """Those that are loaded, the one that starts first."""
    from sim2real_deploy.policy.contract import listed  # heavy: `sim2real --help` reads this module

    return listed(values["policies"] or values["policy"])


def _check_policies(values: Mapping[str, str]) -> None:
    """Refuse a policy that does not exist before anything is started."""
    from sim2real_deploy.policy.contract import bundle_folder

    for name in _policies(values):
        bundle_folder(name)


def _check_adaptation(values: Mapping[str, str]) -> None:
    from sim2real_deploy.control.adaptation import allowed
    from sim2real_deploy.control.stages import load_stage

    allowed(values["adaptation"], load_stage(values["stage"]).adaptation)


def _wire(values: Mapping[str, str]) -> dict[str, Value]:
    domain = values["domain"]
    if not domain.isdecimal() or int(domain) > 232:
        raise Refusal(f"domain:={domain}: a DDS domain is a whole number from 0 to 232")
    return {"robot": values["model"], "interface": values["interface"], "domain": int(domain)}


def _dashboard(
    model: str, stage: str, real: bool, policy: Mapping[str, Value] | None = None
) -> Process:
    if find_spec("viser") is None:
        raise Refusal(f"dashboard:=true needs viser: {to_install('dashboard')}")
    parameters = {"robot": model, "stage": stage, "real": real, **(policy or {})}
    return Process("dashboard", parameters, respawn=True)


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        number = float(values[name])
    except ValueError:
        number = nan
    if not isfinite(number):
        raise Refusal(f"{name}:={values[name]}: a number was expected")
    return number


def _clock() -> str:
    """A name for the clock of a new twin's world, where that world may have to wait. It begins
    with a letter: ROS takes digits for a number."""
    return f"w{secrets.token_hex(4)}" if world_may_wait() else ""


def _twin(values: Mapping[str, str], world: Mapping[str, Value]) -> Process:
    for module in ("mujoco", "numba"):
        if find_spec(module) is None:
            raise Refusal(f"a twin needs {module}: {to_install('sim')}")
    if not values["seed"].isdecimal():
        raise Refusal(f"seed:={values['seed']}: a seed is a whole number")
    from sim2real_deploy.twin.files import load_imperfections
    from sim2real_deploy.twin.floors import named_floor

    load_imperfections(values["preset"], str(world["robot"]))
    named_floor(values["floor"])
    parameters = dict(world)
    parameters.update(floor=values["floor"], preset=values["preset"], seed=int(values["seed"]))
    return Process("twin", parameters, essential=True)


Graph = Callable[[Mapping[str, str]], tuple[Process, ...]]
BRINGUPS: dict[str, tuple[tuple[Argument, ...], Graph]] = {
    "go2_walk": (GO2_WALK, go2_walk),
    "replay": (REPLAY, replay),
    "twin": (TWIN, twin_alone),
    "walk_programme": (WALK_PROGRAMME, walk_programme),
}
