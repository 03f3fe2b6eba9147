"""One whole stack on the twin, as `sim2real up` starts it: what ROS sees of it, and how it ends."""

import ast
import json
import re
import time
import xml.etree.ElementTree as ElementTree

import psutil
import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("mujoco", reason="mujoco is not installed")

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters, SetParameters
from rclpy.parameter import Parameter

from sim2real_deploy.paths import config_file
from sim2real_deploy.robots import load_robot
from sim2real_deploy.wire.domains import free_domain
from support.message_fields import message_field
from support.stack_support import PATIENCE_S, Operator, stack

NODES = ("go2_driver", "policy", "safety_supervisor", "recorder", "twin")
pytestmark = pytest.mark.timeout(500)


@pytest.fixture(scope="module")
def domain():
    return free_domain()


@pytest.fixture(scope="module")
def running(domain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stack")
    with stack(domain, folder, "go2_walk", f"domain:={domain}", "stage:=indoor") as running:
        yield running
    ends = [running.lines.index(line) for line in running.lines if "the bag is" in line]
    assert running.process.returncode == 0, "".join(running.lines)
    assert ends, "the recorder did not close its bag"


@pytest.fixture(scope="module")
def operator(domain, running):
    operator = Operator(domain)
    operator.running = running
    for name in ("go2_driver/stand", "safety/estop", "twin/clear_faults", "recorder/pin"):
        operator.caller(name)  # all processes are up
    yield operator
    operator.close()


def ask(operator, kind, service, request):
    client = operator.node.create_client(kind, service)
    assert client.wait_for_service(PATIENCE_S), service + "".join(operator.running.lines)
    future = client.call_async(request)
    deadline = time.monotonic() + 20
    while not future.done() and time.monotonic() < deadline:
        time.sleep(0.01)
    return future.result()


def test_every_parameter_is_described_and_bounded(operator):
    for node in NODES:
        names = ask(operator, ListParameters, f"{node}/list_parameters", ListParameters.Request())
        own = [n for n in names.result.names if not n.startswith(("use_sim_time", "start_type"))]
        request = DescribeParameters.Request(names=own)
        answer = ask(operator, DescribeParameters, f"{node}/describe_parameters", request)
        assert "robot" in own
        for descriptor in answer.descriptors:
            assert len(descriptor.description) > 10, f"{node}: {descriptor.name}"
            assert descriptor.read_only, f"{node}: {descriptor.name}"


def test_a_limit_cannot_be_changed_while_it_runs(operator):
    for node, name, value in (
        ("go2_driver", "stage", "field"),
        ("go2_driver", "supervised", False),
        ("safety_supervisor", "stage", "field"),
    ):
        new = Parameter(name, value=value).to_parameter_msg()
        request = SetParameters.Request(parameters=[new])
        answer = ask(operator, SetParameters, f"{node}/set_parameters", request)
        assert not answer.results[0].successful
        assert "read-only" in answer.results[0].reason
    request = GetParameters.Request(names=["stage"])
    answer = ask(operator, GetParameters, "go2_driver/get_parameters", request)
    assert answer.values[0].string_value == "indoor"


def shown_by_rqt():
    content = json.loads(config_file("rqt/sim2real.perspective").read_text())
    manager = content["groups"]["pluginmanager"]
    running = ast.literal_eval(manager["keys"]["running-plugins"]["repr"])
    for plugin, serials in running.items():
        for serial in serials:
            group = manager["groups"][f"plugin__{plugin.replace('/', '__')}__{serial}"]
            keys = group["groups"].get("plugin", {"keys": {}})["keys"]
            yield plugin, {k: ast.literal_eval(v["repr"]) for k, v in keys.items()}


def paths_of_rqt():
    for plugin, settings in shown_by_rqt():
        if plugin == "rqt_plot/Plot":
            yield from settings["topics"]
        if plugin == "rqt_publisher/Publisher":
            for publisher in ast.literal_eval(settings["publishers"]):
                yield from publisher["expressions"]


def paths_of_foxglove():
    layout = json.loads(config_file("foxglove/sim2real.json").read_text())

    def panels(node):
        return [node] if isinstance(node, str) else panels(node["first"]) + panels(node["second"])

    assert sorted(panels(layout["layout"])) == sorted(layout["configById"])
    for config in layout["configById"].values():
        for path in config.get("paths", ()):
            topic, _, field = path["value"].partition(".")
            yield f"{topic}/{field.replace('.', '/')}"


def paths_of_plotjuggler():
    joints = "|".join(load_robot("go2").joint_names)
    tree = ElementTree.parse(config_file("plotjuggler/sim2real.xml"))
    for curve in tree.iter("curve"):
        yield re.sub(rf"/({joints})/(\w+)$", r"/\2[0]", curve.get("name"))


@pytest.mark.parametrize("paths", [paths_of_rqt, paths_of_foxglove, paths_of_plotjuggler])
def test_what_the_layouts_show_is_there(operator, paths):
    types = {name: kinds[0] for name, kinds in operator.node.get_topic_names_and_types()}
    shown = list(paths())
    assert len(shown) > 5
    for path in shown:
        topic = max((t for t in types if path.startswith(f"{t}/")), key=len, default=None)
        assert topic is not None, f"{path}: nobody publishes or hears it"
        message_field(types[topic], path[len(topic) + 1 :])


def test_what_the_layouts_call_is_there(operator):
    services = {name for name, _ in operator.node.get_service_names_and_types()}
    called = {s.get("current_service_name") for _, s in shown_by_rqt()} - {None}
    layout = json.loads(config_file("foxglove/sim2real.json").read_text())
    called |= {c["serviceName"] for c in layout["configById"].values() if "serviceName" in c}
    assert "/safety/estop" in called
    assert called <= services


def test_a_recorder_that_dies_is_started_again(operator):
    launcher = psutil.Process(operator.running.process.pid)
    recorder = next(p for p in launcher.children() if "nodes.recorder" in " ".join(p.cmdline()))
    recorder.kill()
    operator.running.wait_for("ended with code -9: starting it again")
    operator.running.wait_for("recording into")


def test_every_diagnostic_has_its_place_in_the_aggregator(operator):
    names = set()
    operator.node.create_subscription(
        DiagnosticArray, "/diagnostics", lambda m: names.update(s.name for s in m.status), 10
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not {"control", "recorder", "twin"} <= names:
        time.sleep(0.1)
    content = yaml.safe_load(config_file("diagnostic_aggregator.yaml").read_text())
    analyzers = [a for a in content["/**"]["ros__parameters"].values() if isinstance(a, dict)]

    def places(name):
        return sum(any(name.startswith(prefix) for prefix in a["startswith"]) for a in analyzers)

    assert len(names) > 20
    assert {name: places(name) for name in names if places(name) != 1} == {}
