"""Every name of rclpy that the package uses, and the distribution that first had it.

Looked up in rclpy's sources: 3.3.15 (Humble), 7.1.6 (Jazzy), 9.1.2 (Kilted). A name that is not in
the table fails here, before somebody on a robot's own computer finds out.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher

PACKAGE = Path(__file__).parents[2] / "sim2real_deploy"
HUMBLE = {
    "rclpy.create_node",
    "rclpy.init",
    "rclpy.spin",
    "rclpy.spin_once",
    "rclpy.spin_until_future_complete",
    "rclpy.try_shutdown",
    "rclpy.callback_groups.CallbackGroup",
    "rclpy.duration.Duration",
    "rclpy.client.Client",
    "rclpy.clock.Clock",
    "rclpy.clock.ClockType",
    "rclpy.exceptions.InvalidParameterTypeException",
    "rclpy.exceptions.InvalidParameterValueException",
    "rclpy.executors.ExternalShutdownException",
    "rclpy.executors.SingleThreadedExecutor",
    "rclpy.node.Node",
    "rclpy.parameter.parameter_value_to_python",
    "rclpy.publisher.Publisher",
    "rclpy.qos.DurabilityPolicy",
    "rclpy.qos.QoSProfile",
    "rclpy.qos.ReliabilityPolicy",
    "rclpy.serialization.deserialize_message",
    "rclpy.signals.SignalHandlerOptions",
    "rclpy.subscription.Subscription",
    "rclpy.time.Time",
}
METHODS = {  # of these classes; all of them in Humble
    Node: {
        "count_publishers",
        "count_subscribers",
        "create_client",
        "create_publisher",
        "create_service",
        "create_subscription",
        "create_timer",
        "declare_parameter",
        "destroy_node",
        "destroy_subscription",
        "get_clock",
        "get_logger",
        "get_name",
        "get_namespace",
        "get_node_names_and_namespaces",
        "get_publishers_info_by_topic",
        "get_topic_names_and_types",
        "handle",
        "resolve_topic_name",
        "services",
    },
    SingleThreadedExecutor: {
        *("add_node", "shutdown", "spin", "spin_once", "spin_until_future_complete", "wake"),
    },
    Client: {"call_async", "handle", "service_is_ready", "wait_for_service"},
    Publisher: {"get_subscription_count", "handle", "publish"},
}
# Since when, and what is done where it is missing.
WITH_FALLBACK = {
    "publisher_gid": ("kilted", "lost messages are not counted"),
    "publication_sequence_number": ("iron", "a message's number in the bag is 0"),
    "topic_type_hash": ("iron", "the bag holds no hash"),
}


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "rclpy" in text:
            yield path, ast.parse(text)


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rclpy"):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        if isinstance(node, ast.Attribute):
            parts, inner = [], node
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value  # type: ignore[assignment]
            if isinstance(inner, ast.Name) and inner.id == "rclpy":
                yield ".".join(["rclpy", *reversed(parts)])


def test_every_name_is_in_humble() -> None:
    used = {name for _, tree in sources() for name in imported(tree)}
    modules = {name.rpartition(".")[0] for name in HUMBLE}
    assert used - modules <= HUMBLE, "look it up, and say since when it exists"
    assert used >= HUMBLE, "no longer used: take it off the list"


@pytest.mark.parametrize("name", sorted(HUMBLE))
def test_the_names_are_in_the_rclpy_that_is_here(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_every_method_is_in_humble(kind: type) -> None:
    """By name alone: whatever is called like a public method of the class counts as one."""
    public = {name for name in dir(kind) if not name.startswith("_")}
    used = {
        node.attr
        for path, tree in sources()
        for node in ast.walk(tree)
        if "nodes" in path.parts and isinstance(node, ast.Attribute) and node.attr in public
    }
    assert used <= METHODS[kind]


def test_what_came_later_is_never_taken_for_granted() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "nodes").glob("*.py"))
    for name in WITH_FALLBACK:
        ways = (f'if "{name}" in ', f'.get("{name}")', f'getattr(publishers[0], "{name}", "")')
        assert any(way in text for way in ways), name


def test_no_signature_subscripts_a_class_of_rclpy() -> None:
    """They are not generic in Humble: `Client[...]` in a signature is an error at import."""
    for path, tree in sources():
        names = {name.rpartition(".")[2] for name in imported(tree)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            signature = [*node.args.args, *node.args.kwonlyargs]
            for annotation in (*(argument.annotation for argument in signature), node.returns):
                for inner in ast.walk(annotation) if annotation is not None else ():
                    subscript = isinstance(inner, ast.Subscript) and isinstance(
                        inner.value, ast.Name
                    )
                    assert not (subscript and inner.value.id in names), f"{path}: {node.name}"
