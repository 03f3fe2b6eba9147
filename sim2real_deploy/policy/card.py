"""A policy's contract, printed for people."""

from rich.console import Console
from rich.table import Table

from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.contract import Group, Term
from sim2real_deploy.policy.policy import Policy


def print_card(bundle: Bundle) -> None:
    contract, policy = bundle.contract, bundle.open()
    ranges = contract.command_ranges
    card = Table(show_header=False, box=None, title=contract.name, title_justify="left")
    rows = [
        ("robot", bundle.spec.title),
        ("rate", f"{contract.rate_hz:g} Hz"),
        ("expects", _inputs(policy)),
        ("sends", f"targets of {len(contract.joints)} joints: offset + scale x action"),
        ("", _action(bundle)),
        ("memory", _memory(bundle)),
        ("runs", _engine(policy)),
        (
            "commands",
            f"vx {_range(ranges.vx)}, vy {_range(ranges.vy)} m/s, wz {_range(ranges.wz)} rad/s",
        ),
        ("motion", _motion(bundle)),
        ("estimates", _estimates(policy)),
        ("held", ", ".join(held.joint for held in contract.held) or "no joint"),
        ("proof", f"{len(contract.golden)} golden steps, sha256 {contract.sha256[:12]}"),
    ]
    rows += [(key, str(value)) for key, value in contract.provenance.items()]
    for row in rows:
        card.add_row(*row)
    console = Console()
    console.print(card)
    for group in contract.observations:
        console.print(_observations(group, policy))
    console.print(_joints(bundle))


def _inputs(policy: Policy) -> str:
    return ", ".join(
        f"{values.size} numbers as '{name}'" for name, values in policy.session.inputs.items()
    )


def _action(bundle: Bundle) -> str:
    action = bundle.contract.action
    clip = "not clipped" if action.clip is None else "clipped"
    return f"{clip}; it observes its {action.observed} action of the step before"


def _estimates(policy: Policy) -> str:
    told = [
        f"{name} ({unit})" if unit != "1" else name
        for estimate in policy.session.told
        for name, unit in zip(estimate.names, estimate.units, strict=True)
    ]
    return ", ".join(told) or "nothing"


def _motion(bundle: Bundle) -> str:
    motion = bundle.contract.motion
    if motion is None:
        return "none: it follows velocity commands"
    seconds = motion.frames / bundle.contract.rate_hz
    return f"{motion.source}, {seconds:.1f} s, compared by {motion.anchor}"


def _memory(bundle: Bundle) -> str:
    states = [state.input for state in bundle.contract.recurrence]
    return f"network states {', '.join(states)}, zero at the start" if states else "none of its own"


def _engine(policy: Policy) -> str:
    why = policy.session.why_onnx
    return f"in onnxruntime, called from Python: {why}" if why else "in our own compiled loops"


def _observations(group: Group, policy: Policy) -> Table:
    first = "clipped, then scaled" if group.clip_first else "scaled, then clipped"
    history = f"{group.layout.replace('_', ' ')}, newest {group.newest}, starts with {group.start}"
    table = Table("term", "scale", "clip", "history", "parameters", title_justify="left")
    table.title = f"observations into '{group.input}' ({first}; history {history})"
    for term in group.terms:
        table.add_row(*_term_row(term))
    return table


def _term_row(term: Term) -> tuple[str, ...]:
    scale = term.scale if isinstance(term.scale, float) else _list(term.scale)
    clip = "" if term.clip is None else _range(term.clip)
    params = ", ".join(f"{key} {value}" for key, value in term.params.items())
    return term.name, str(scale), clip, str(term.history), params


def _joints(bundle: Bundle) -> Table:
    contract, spec = bundle.contract, bundle.spec
    table = Table("#", "joint", "motor", "default", "kp", "kd", "scale", title_justify="left")
    table.title = "joints in the policy's order"
    for i, name in enumerate(contract.joints):
        numbers = (
            contract.default_position[i],
            contract.kp[i],
            contract.kd[i],
            contract.action.scale[i],
        )
        motor = str(spec.joint_names.index(name))
        table.add_row(str(i), name, motor, *(f"{number:g}" for number in numbers))
    return table


def _range(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:g} to {bounds[1]:g}"


def _list(values: tuple[float, ...]) -> str:
    same = len(set(values)) == 1
    return f"{values[0]:g}" if same else ", ".join(f"{value:g}" for value in values)
