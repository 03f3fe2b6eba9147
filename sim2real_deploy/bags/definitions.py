"""Message definitions in ros2msg form, so that any tool can read a bag without this package.

ROS types are described from their Python classes, the vendor's wire types from the codec's layouts,
so nothing depends on where a ROS install keeps its .msg files.
"""

import importlib
import re
from collections.abc import Callable
from typing import Any

from sim2real_deploy.bags.topic import Qos, Topic
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.topics import LOW_STATE
from sim2real_deploy.wire.layout import Layout, Member
from sim2real_deploy.wire.messages import FAMILIES

SEPARATOR = "=" * 80
_IDL_NAMES = {"double": "float64", "float": "float32", "boolean": "bool", "octet": "byte"}
_NUMPY_NAMES = {
    "u1": "uint8",
    "<i2": "int16",
    "<u2": "uint16",
    "<i4": "int32",
    "<u4": "uint32",
    "<f4": "float32",
}


def of_wire(layout: Layout) -> tuple[str, str]:
    """Type name and definition of a vendor message, as ROS names it."""
    package, name = layout.type_name.removesuffix("_").split("::msg::dds_::")
    bodies: dict[str, str] = {}
    _describe_struct(f"{package}/{name}", layout.members, bodies)
    return f"{package}/msg/{name}", _assemble(f"{package}/{name}", bodies.__getitem__)


def wire_topic(robot: RobotSpec, name: str, namespace: str = "") -> Topic:
    """The topic that holds LOW_STATE or LOW_CMD in a bag."""
    family = FAMILIES[robot.wire.family]
    layout = family.state if name == LOW_STATE else family.command
    return Topic(f"{namespace}/{name}", *of_wire(layout), Qos("best_effort"))


def of_class(message: type[Any]) -> tuple[str, str]:
    """Type name and definition of a ROS message class."""
    package, name = message.__module__.split(".")[0], message.__name__
    return f"{package}/msg/{name}", _assemble(f"{package}/{name}", _body_of_class)


def message_class(type_name: str) -> type[Any] | None:
    """The Python class of "package/msg/Name"; None if its package is not installed."""
    package, _, name = type_name.split("/")
    try:
        found: type[Any] | None = getattr(importlib.import_module(f"{package}.msg"), name, None)
    except ModuleNotFoundError:
        return None
    return found


def _assemble(root: str, body_of: Callable[[str], str]) -> str:
    """The root's fields, then every nested type once, as in rosbag2."""
    bodies = {root: body_of(root)}
    pending = [root]
    while pending:
        for line in bodies[pending.pop()].splitlines():
            nested = line.split()[0].split("[")[0]
            if "/" in nested and nested not in bodies:
                bodies[nested] = body_of(nested)
                pending.append(nested)
    root_body = bodies.pop(root)
    parts = [f"{SEPARATOR}\nMSG: {name}\n{body}\n" for name, body in bodies.items()]
    return "".join([root_body + "\n", *parts])


def _describe_struct(name: str, members: tuple[Member, ...], bodies: dict[str, str]) -> None:
    lines = []
    for member in members:
        if isinstance(member.of, str):
            kind = _NUMPY_NAMES[member.of]
        else:  # motor_state holds MotorState; the vendor writes IMU in capitals
            words = member.name.split("_")
            short = "".join("IMU" if word == "imu" else word.capitalize() for word in words)
            kind = f"{name.split('/')[0]}/{short}"
            _describe_struct(kind, member.of, bodies)
        lines.append(f"{kind}{f'[{member.count}]' if member.count else ''} {member.name}")
    bodies[name] = "\n".join(lines)


def _body_of_class(name: str) -> str:
    package, short = name.split("/")
    message = getattr(importlib.import_module(f"{package}.msg"), short)
    fields = message.get_fields_and_field_types()
    return "\n".join(f"{_msg_type(kind)} {field}" for field, kind in fields.items())


def _msg_type(kind: str) -> str:
    """rosidl's Python spelling into .msg spelling: sequence<double, 3> -> float64[<=3]."""
    sequence = re.fullmatch(r"sequence<(.+?)(?:, (\d+))?>", kind)
    if sequence:
        element, bound = sequence.groups()
        return f"{_msg_type(element)}[{f'<={bound}' if bound else ''}]"
    array = re.fullmatch(r"(.+)(\[\d+\])", kind)
    if array:
        return _msg_type(array[1]) + array[2]
    text = re.fullmatch(r"(w?string)<(\d+)>", kind)
    if text:
        return f"{text[1]}<={text[2]}"
    return _IDL_NAMES.get(kind, kind)
