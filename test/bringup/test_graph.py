"""The node graph as data: what it refuses, and that every value in it has somewhere to go."""

from importlib import import_module

import pytest

from sim2real_deploy.bringup import graph as bringup
from sim2real_deploy.bringup.graph import BRINGUPS, resolve
from sim2real_deploy.bringup.node_process import command_line
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import share_directory

NEEDED = {"replay": {"bag": "runs/some"}}


def graph(name: str, **given: str) -> tuple[bringup.Process, ...]:
    arguments, build = BRINGUPS[name]
    return build(resolve(arguments, NEEDED.get(name, {}) | given))


def names(name: str, **given: str) -> list[str]:
    return [process.name for process in graph(name, **given)]


def test_the_robot_comes_first_and_control_is_watched_from_its_start():
    assert names("go2_walk") == ["twin", "recorder", "safety_supervisor", "control"]
    assert names("go2_walk", robot="real", interface="eth0") == [
        "recorder",
        "safety_supervisor",
        "control",
    ]


def test_a_foreign_simulator_is_there_already_and_has_no_clock_of_ours():
    started = graph("go2_walk", robot="simulator")
    assert [process.name for process in started] == ["recorder", "safety_supervisor", "control"]
    for process in started[1:]:
        assert process.parameters["foreign_simulator"] is True
        assert process.parameters["clock"] == ""
    for process in graph("go2_walk")[2:]:
        assert process.parameters["foreign_simulator"] is False


def test_the_twin_knows_the_policies_for_which_it_makes_a_height_map():
    (twin,) = (
        process for process in graph("go2_walk", policy="go2_perceptive") if process.name == "twin"
    )
    assert twin.parameters["policy"] == "go2_perceptive"


def test_only_what_control_does_not_lean_on_starts_again():
    pytest.importorskip("viser", reason="the dashboard is not installed")
    for process in graph("go2_walk", dashboard="true"):
        assert process.essential != process.respawn, process.name
        assert process.respawn == (process.name in ("recorder", "dashboard"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"robot": "real"}, "interface:=NAME"),
        ({"robot": "real", "interface": "eth0", "record": "false"}, "unrecorded"),
        ({"robot": "spot"}, "one of twin, real, simulator"),
        ({"robot": "simulator", "interface": "eth0"}, "there may be a robot"),
        ({"domain": "233"}, "0 to 232"),
        ({"domain": "-1"}, "0 to 232"),
        ({"seed": "x"}, "whole number"),
        ({"adaptation": "mrac"}, "this stage allows 'strength' at most"),
        ({"adaptation": "some"}, "one of none, strength, mrac, velocity, all"),
        ({"sage": "tether"}, "no argument 'sage'"),
        ({"policy": "nope"}, "policy 'nope'.* there are: .*go2_walk"),
        ({"policies": "go2_walk,nope"}, "policy 'nope'"),
        ({"preset": "nope"}, "no twin 'nope'"),
        ({"floor": "nope"}, "floor 'nope'"),
    ],
)
def test_a_mistake_is_refused_by_name(given, words):
    with pytest.raises(Refusal, match=words):
        graph("go2_walk", **given)


@pytest.mark.parametrize("duration", ["soon", "nan", "inf"])
def test_a_duration_is_a_number(duration):
    with pytest.raises(Refusal, match=f"duration:={duration}: a number was expected"):
        graph("walk_programme", duration=duration)


def test_a_replay_needs_a_bag_and_numbers():
    with pytest.raises(Refusal, match="bag:=FOLDER"):
        graph("replay", bag="")
    with pytest.raises(Refusal, match="rate:=fast"):
        graph("replay", rate="fast")


@pytest.mark.parametrize("name", BRINGUPS)
def test_every_argument_is_explained_and_its_default_is_a_choice(name):
    arguments, _ = BRINGUPS[name]
    for argument in arguments:
        assert argument.description.endswith(".")
        assert not argument.choices or argument.default in argument.choices


@pytest.mark.parametrize("name", BRINGUPS)
def test_every_parameter_is_declared_by_its_node_with_that_type(name):
    """ROS takes an undeclared parameter without a word: a typo here would set nothing."""
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    pytest.importorskip("viser", reason="the dashboard is not installed")
    arguments, _ = BRINGUPS[name]
    given = {"dashboard": "true"} if bringup.DASHBOARD in arguments else {}
    for process in graph(name, **given):
        module = import_module(f"sim2real_deploy.nodes.{process.name}")
        tables = [getattr(module, table, ()) for table in ("PARAMETERS", "DRIVER", "POLICY")]
        declared = {parameter.name: parameter for table in tables for parameter in table}
        for key, value in process.parameters.items():
            assert key in declared, f"{process.name} has no parameter '{key}'"
            assert type(value) is type(declared[key].default), f"{process.name}: {key}"


@pytest.mark.parametrize("name", BRINGUPS)
def test_ros2_run_finds_every_process(name):
    scripts = share_directory() / "scripts"
    if not scripts.is_dir():
        pytest.skip("not a checkout")
    for process in graph(name):
        assert (scripts / process.name).resolve() == scripts.parent / "resource" / "run_node"


def test_values_reach_the_command_line_with_their_types():
    process = bringup.Process("twin", {"domain": 7, "preset": "1.0", "sport_mode": True})
    line = command_line(process, "a/b", "over.yaml")
    assert "domain:=7" in line
    assert "preset:='1.0'" in line
    assert "sport_mode:=true" in line
    assert line[line.index("-r") + 1] == "__ns:=/a/b"
    assert line.index("--params-file") < line.index("-p"), "the bring-up has the last word"
    assert line[line.index("--params-file") + 1] == "over.yaml"
