"""sim2real_msgs: its files are sound, agree with the code, and hold what the standard ones do."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sim2real_deploy.control.limits import Limit
from sim2real_deploy.control.modes import Mode
from sim2real_deploy.control.ticks import COLUMNS, Ticks
from sim2real_deploy.nodes.typed import Typed, tick_fields

typesys = pytest.importorskip("rosbags.typesys", reason="rosbags is not installed")
PACKAGE = Path(__file__).parents[2] / "msgs" / "sim2real_msgs"
NAMES = sorted(path.stem for path in (PACKAGE / "msg").glob("*.msg"))


@pytest.fixture(scope="module")
def store() -> Any:
    store = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    for name in NAMES:
        text = (PACKAGE / "msg" / f"{name}.msg").read_text(encoding="utf-8")
        store.register(typesys.get_types_from_msg(text, f"sim2real_msgs/msg/{name}"))
    return store


def test_the_build_lists_every_message() -> None:
    cmake = (PACKAGE / "CMakeLists.txt").read_text(encoding="utf-8")
    assert [name for name in NAMES if f'"msg/{name}.msg"' in cmake] == NAMES
    package = ElementTree.parse(PACKAGE / "package.xml").getroot()
    assert package.findtext("name") == PACKAGE.name
    assert package.findtext("member_of_group") == "rosidl_interface_packages"


@pytest.mark.parametrize("name", NAMES)
def test_ros_own_parser_takes_every_message(name: str) -> None:
    parser = pytest.importorskip("rosidl_adapter.parser", reason="rosidl_adapter is not installed")
    parsed = parser.parse_message_file(PACKAGE.name, str(PACKAGE / "msg" / f"{name}.msg"))
    assert parsed.msg_name == name
    assert parsed.fields


@pytest.mark.parametrize(("message", "kind"), [("Mode", Mode), ("Limits", Limit)])
def test_constants_are_the_codes_own(store: Any, message: str, kind: Any) -> None:
    constants, _ = store.fielddefs[f"sim2real_msgs/msg/{message}"]
    assert {name: value for name, _, value in constants} == {m.name: int(m) for m in kind}


def test_a_tick_has_a_field_for_every_column(store: Any) -> None:
    _, fields = store.fielddefs["sim2real_msgs/msg/Tick"]
    assert [name for name, _ in fields] == [*COLUMNS, "limits"]


class Node:
    """What Typed asks of a node; keeps what it publishes, as bytes that were read back."""

    def __init__(self, store: Any) -> None:
        self.published: dict[str, Any] = {}
        self._store = store
        stamp = store.types["builtin_interfaces/msg/Time"](sec=7, nanosec=0)
        now = SimpleNamespace(to_msg=lambda: stamp)
        self._clock = SimpleNamespace(now=lambda: now)

    def get_clock(self) -> Any:
        return self._clock

    def create_publisher(self, _kind: Any, topic: str, _qos: Any) -> Any:
        def publish(message: Any) -> None:
            name = f"sim2real_msgs/msg/{message.kind}"
            fields = {**vars(message), "header": self.header()}
            del fields["kind"]
            made = _built(self._store, name, fields)
            raw = self._store.serialize_cdr(made, name)
            self.published[topic] = self._store.deserialize_cdr(raw, name)

        return SimpleNamespace(publish=publish, get_subscription_count=lambda: 1)

    def header(self) -> Any:
        time = self._store.types["builtin_interfaces/msg/Time"](sec=7, nanosec=0)
        return self._store.types["std_msgs/msg/Header"](stamp=time, frame_id="")


def _built(store: Any, name: str, fields: dict[str, Any]) -> Any:
    """rosbags wants arrays of numbers as numpy arrays, where rclpy takes lists."""
    arrays = {"acted": np.uint8, "limits": np.uint8}
    arrays |= {"observation": np.float32, "action": np.float32}
    for key, value in fields.items():
        if key in arrays:
            fields[key] = np.array(value, arrays[key])
        if key == "ticks":
            fields[key] = [_built(store, "sim2real_msgs/msg/Tick", _fields(t)) for t in value]
    return store.types[name](**fields)


def _fields(message: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(message).items() if k not in ("header", "kind")}


class Messages:
    """Message classes by name, as a generated module has them."""

    def __getattr__(self, kind: str) -> Any:
        return lambda **fields: SimpleNamespace(header=SimpleNamespace(), kind=kind, **fields)


def test_what_is_published_is_what_the_loop_did(store: Any) -> None:
    node = Node(store)
    typed = Typed(node, ("a", "b"), Messages())  # type: ignore[arg-type]
    typed.show_mode(Mode.WALKING, "asked for")
    typed.show_lease("teleop")
    typed.show_limits((0, 16))
    typed.show_step(("x", "y"), (1.0, 2.0), ("a",), (0.5,))
    row = np.arange(len(COLUMNS) + 2, dtype=np.float64)
    nothing = np.zeros((1, 0), np.float32)
    typed.show_ticks(Ticks(row[None], nothing, nothing, nothing, nothing, nothing))
    shown = node.published
    assert (shown["typed/mode"].mode, shown["typed/mode"].reason) == (Mode.WALKING, "asked for")
    assert (shown["typed/lease"].holder, shown["typed/lease"].priority) == ("teleop", 3)
    assert shown["typed/limits"].acted.tolist() == [0, Limit.TORQUE]
    assert shown["typed/policy_step"].observation.tolist() == [1.0, 2.0]
    (tick,) = shown["typed/ticks"].ticks
    assert tick.vx == row[COLUMNS.index("vx")]
    assert tick.now_ns == COLUMNS.index("now_ns")
    assert tick.policy_stepped is True
    assert tick.limits.tolist() == [len(COLUMNS), len(COLUMNS) + 1]


def test_every_figure_keeps_its_value() -> None:
    row = [float(i) for i in range(len(COLUMNS))]
    fields = tick_fields(row)
    assert fields["limits"] == []
    for name, value in zip(COLUMNS, row, strict=True):
        assert fields[name] == (bool(value) if isinstance(fields[name], bool) else value)
