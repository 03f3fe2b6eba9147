"""Four recipes of docs/extending.md, followed word for word in a copy of the package."""

import re
from pathlib import Path

import pytest

pytest.importorskip("mujoco", reason="mujoco is not installed")
from sim2real_deploy.gate.engines import FIRST
from sim2real_deploy.gate.episodes import run_episode
from sim2real_deploy.gate.scenarios import load_scenarios
from sim2real_deploy.policy.bundle import load_own_bundle
from support.places import ROOT
from support.scratch import run_in, scratch_copy

TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
STEP = re.compile(
    r"^(?:Create `(?P<create>[^`]+)`|Append to `(?P<append>[^`]+)`"
    r"|In `(?P<edit>[^`]+)`, (?P<where>before|after) `(?P<anchor>[^`]+)`):\n\n"
    r"```\w+\n(?P<code>.*?)```$",
    re.MULTILINE | re.DOTALL,
)

WORKS = {
    "An observation term": """
        import numpy as np
        from sim2real_deploy.policy.contract import Group
        from sim2real_deploy.policy.observations import Observation
        from sim2real_deploy.policy.terms import TERMS, TermInput, BatchInput
        from sim2real_deploy.robots import load_robot
        pose = load_robot("go2").stand_pose.tolist()
        seen = TermInput.nothing(pose)
        seen.command = (0.3, 0.4, 0.0)
        group = Group(input="x", terms=({"name": "projected_gravity"}, {"name": "command_speed"}))
        observation = Observation(group, TermInput.nothing(pose), load_robot("go2").joint_names, "")
        values = np.zeros(len(observation.labels), np.float32)
        observation.place(values)
        observation.push(seen)
        assert observation.labels[-1] == "command_speed.0", observation.labels
        assert abs(values[-1] - 0.5) < 1e-6
        still = np.zeros((1, 3), np.float32)
        command = np.array([[0.3, 0.4, 0.0]], np.float32)
        sight = BatchInput(still, still, command, still, still, still, still)
        assert abs(TERMS["command_speed"].batch(sight)[0, 0] - 0.5) < 1e-6
    """,
    "A reward": """
        import numpy as np
        from sim2real_deploy.robots import load_robot
        from sim2real_deploy.training.config import load_training
        from sim2real_deploy.training.environment import Environment
        config = load_training("go2_walk")
        assert config.rewards["yaw_acceleration"] == -0.05
        environment = Environment(config, load_robot("go2"), 2, 0)
        outcome = environment.step(np.zeros((2, 12), np.float32))
        assert np.isfinite(outcome.reward).all()
    """,
    "A scenario": """
        from sim2real_deploy.gate.scenarios import load_scenarios, needed_for
        from sim2real_deploy.robots import load_robot
        (ramp,) = load_scenarios(["wet_ramp"])
        assert "wet_ramp" in [s.name for s in needed_for("outdoor", load_scenarios())]
        assert ramp.conditions(load_robot("go2"), 0).payload == 2.0
    """,
    "A safety monitor": """
        import numpy as np
        from sim2real_deploy.robots import load_robot
        from sim2real_deploy.safety.inputs import Inputs
        from sim2real_deploy.safety.settings import load_events
        from sim2real_deploy.safety.supervisor import Supervisor
        from sim2real_deploy.wire.link import LinkCounters
        from support.policy_samples import make_state
        robot = load_robot("go2")
        supervisor = Supervisor(robot, load_events(robot, "field"))
        raised = []
        for tick in range(100):
            now_ns = 2_000_000 * tick
            spin = np.array([0.0, 0.0, 9.0], np.float32)
            state = make_state(robot, tick=tick, received_ns=now_ns, gyroscope=spin)
            inputs = Inputs(state=state, counters=LinkCounters(), wall_ns=now_ns)
            for change in supervisor.update(inputs, now_ns).changes:
                raised += [change.event.key] * change.raised
        assert "spinning" in raised, raised
        assert supervisor.latched_reason.startswith("the trunk turns at 9 rad/s")
    """,
}


def follow(recipe: str, copy: Path) -> int:
    """Do what the recipe says; how many files it touched."""
    (section,) = re.findall(rf"^## {recipe}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    touched = set()
    for step in STEP.finditer(section):
        path = copy / (step["create"] or step["append"] or step["edit"])
        touched.add(path)
        if step["create"]:
            assert not path.exists()
            path.write_text(step["code"])
        elif step["append"]:
            path.write_text(path.read_text().rstrip("\n") + "\n\n\n" + step["code"])
        else:
            lines = path.read_text().splitlines(keepends=True)
            (at, *_) = (n for n, line in enumerate(lines) if step["anchor"] in line)
            lines.insert(at + (step["where"] == "after"), step["code"])
            path.write_text("".join(lines))
    return len(touched)


@pytest.mark.parametrize("recipe", WORKS)
def test_a_recipe_works_as_it_stands(tmp_path: Path, recipe: str) -> None:
    copy = scratch_copy(tmp_path)
    assert 1 <= follow(recipe, copy) <= 2
    code = "\n".join(line[8:] for line in WORKS[recipe].splitlines())
    done = run_in(copy, "-c", code)
    assert done.returncode == 0, done.stderr


def test_the_scenario_of_the_recipe_walks(tmp_path: Path) -> None:
    follow("A scenario", scratch_copy(tmp_path))
    (ramp,) = load_scenarios(["wet_ramp"], tmp_path / "config" / "scenarios")
    episode = run_episode(load_own_bundle("go2_walk"), FIRST, ramp, 0)
    assert episode.figures is not None, episode.reason


def test_nine_of_twelve_touch_at_most_two_files_and_every_place_named_exists() -> None:
    rows = re.findall(r"^\| \[[^\]]+\]\(#([a-z-]+)\)[^|]*\| (.+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 12
    headings = [h.lower().replace(" ", "-") for h in re.findall(r"^## (.+)$", TEXT, re.MULTILINE)]
    assert {name for name, _ in rows} == set(headings)
    few = [name for name, places in rows if len(places.split(", ")) <= 2]
    assert len(few) >= 9, few
    for path in re.findall(
        r"`((?:config|scripts)/[\w/.]*|[\w]+/[\w/.*]+)`", " ".join(r for _, r in rows)
    ):
        root = ROOT if path.startswith(("config", "scripts")) else ROOT / "sim2real_deploy"
        assert list(root.glob(path.rstrip("/"))), path
