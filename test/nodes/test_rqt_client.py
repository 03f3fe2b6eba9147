"""The rqt plugin's own node, and the files through which rqt finds it. No Qt is needed."""

import ast
import json
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.executors import SingleThreadedExecutor

from sim2real_deploy.nodes.rqt_sim2real.client import SUPERVISOR, Client, Stop
from sim2real_deploy.nodes.rqt_sim2real.model import Word
from sim2real_deploy.paths import config_file
from support.supervisor_support import Supervisor, wait
from support.wire_support import free_domain

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ros() -> Iterator[None]:
    rclpy.init(domain_id=free_domain())
    yield
    rclpy.try_shutdown()


def test_without_a_stack_nothing_is_offered_and_nothing_called(ros: None) -> None:
    other = Supervisor("/other")  # of another robot: never the one that is asked
    client = Client("dog1", "go2")
    answers: list[tuple[str, bool, str]] = []
    assert wait(lambda: other.node.count_subscribers("/diagnostics") > 0)
    assert not client.offered("estop")
    client.ask("estop", lambda *answer: answers.append(answer))
    assert answers[0][:2] == ("estop", False)
    assert client.service("estop") == "/dog1/safety/estop"
    client.close()
    other.close()
    assert other.called == []


def test_stop_calls_its_own_service_and_only_that(ros: None) -> None:
    supervisor = Supervisor("/dog1")
    client = Client("dog1", "go2")
    answers: list[tuple[str, bool, str]] = []
    assert wait(lambda: client.offered("estop"))
    client.ask("estop", lambda *answer: answers.append(answer))
    assert wait(lambda: bool(answers))
    assert answers == [("estop", True, "estop it is")]
    assert supervisor.called == ["estop"]
    assert client._stack._velocity is None, "a panel that never drives has no publisher"
    client.close()
    supervisor.close()


def test_the_stop_of_its_own_program_calls_one_service_or_says_that_it_cannot(ros: None) -> None:
    stop, told = Stop("/dog1/safety/estop"), list[tuple[Word, str]]()
    other = Supervisor("/other")
    assert wait(lambda: "/other/safety/estop" in dict(stop.node.get_service_names_and_types()))
    stop.press(lambda *words: told.append(words))
    assert told == [(Word.CANNOT, "/dog1/safety/estop")]
    supervisor = Supervisor("/dog1")
    assert wait(lambda: stop._client.service_is_ready())
    executor = SingleThreadedExecutor()
    executor.add_node(stop.node)
    told.clear()
    stop.press(lambda *words: told.append(words))
    deadline = time.monotonic() + 20
    while len(told) < 2 and time.monotonic() < deadline:
        executor.spin_once(timeout_sec=0.1)
    assert told == [(Word.ASKED, ""), (Word.DONE, "estop it is")]
    stop.node.destroy_node()
    supervisor.close()
    other.close()
    assert supervisor.called == ["estop"]
    assert other.called == []


def test_only_its_own_robots_supervisor_counts_as_alive(ros: None) -> None:
    supervisor = Supervisor("/dog1")
    client = Client("dog1", "go2")

    def report(namespace: str) -> None:
        where = KeyValue(key="namespace", value=namespace)
        status = DiagnosticStatus(name=SUPERVISOR, values=[where])
        supervisor.diagnostics.publish(DiagnosticArray(status=[status]))

    assert wait(lambda: supervisor.diagnostics.get_subscription_count() > 0)
    report("/dog2")
    supervisor.state.publish(DiagnosticStatus(level=DiagnosticStatus.ERROR, message="estop: x"))
    assert wait(lambda: client.heard.stopped)
    time.sleep(0.2)
    assert client.heard.supervisor_s is None
    report("/dog1")
    assert wait(lambda: client.heard.supervisor_s is not None)
    client.close()
    supervisor.close()


def test_rqt_finds_the_plugin_and_the_perspective_opens_it() -> None:
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    (export,) = package.iter("rqt_gui")
    plugin = ROOT / export.attrib["plugin"].removeprefix("${prefix}/")
    (entry,) = ElementTree.parse(plugin).getroot().iter("class")
    module, _, name = entry.attrib["type"].rpartition(".")
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    content = json.loads(config_file("rqt/sim2real.perspective").read_text())
    manager = content["groups"]["pluginmanager"]
    running = ast.literal_eval(manager["keys"]["running-plugins"]["repr"])
    assert f"sim2real_deploy/{entry.attrib['name']}" in running
    # A stock service caller falls back to the first service it knows: no stop is left to one.
    assert not any("ServiceCaller" in plugin for plugin in running)
