"""The loop end to end with tiny budgets: its steps are done once, its bundle names its bags."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from sim2real_deploy.analysis.gap.world_fit import World
from sim2real_deploy.analysis.loop import loop as module
from sim2real_deploy.analysis.loop.finetuning import TUNED
from sim2real_deploy.analysis.loop.loop import Settings, run_loop
from sim2real_deploy.analysis.loop.page import headline, write_loop_page
from sim2real_deploy.analysis.loop.tracking import Tracking, commands_of, track
from sim2real_deploy.analysis.loop.workshop import Workshop, digest_of
from sim2real_deploy.cli import main
from sim2real_deploy.gate.engines import FIRST, open_robot
from sim2real_deploy.policy.bundle import load_own_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import CLOCK, load_training
from sim2real_deploy.twin.files import (
    IdentifiedFigure,
    Provenance,
    TwinFile,
    load_imperfections,
)
from sim2real_deploy.twin.floors import Floor
from sim2real_deploy.twin.per_joint import per_joint
from support.places import ROOT
from support.simulated_run import record_walk


def test_a_step_is_done_once_and_an_interrupted_one_begins_anew(tmp_path: Path) -> None:
    shop, made = Workshop(tmp_path), []

    def make(place: Path) -> dict[str, Any]:
        made.append(sorted(p.name for p in place.iterdir()))
        (place / "file").write_text("content")
        if len(made) == 1:
            raise KeyboardInterrupt
        return {"size": 7}

    with pytest.raises(KeyboardInterrupt):
        shop.step("one", {"a": 1}, make)
    first = shop.step("one", {"a": 1}, make)
    again = Workshop(tmp_path).step("one", {"a": 1}, make)
    assert made == [[], []]  # the interrupted one left nothing behind
    assert (first.cached, again.cached) == (False, True)
    assert first.result == again.result == {"size": 7}
    assert shop.step("one", {"a": 2}, make).digest != first.digest


def test_a_step_that_can_go_on_finds_what_it_left(tmp_path: Path) -> None:
    seen = []

    def make(place: Path) -> dict[str, Any]:
        seen.append((place / "half").exists())
        (place / "half").write_text("")
        if len(seen) == 1:
            raise KeyboardInterrupt
        return {}

    with pytest.raises(KeyboardInterrupt):
        Workshop(tmp_path).step("one", {}, make, goes_on=True)
    Workshop(tmp_path).step("one", {}, make, goes_on=True)
    assert seen == [False, True]


def test_the_digest_of_a_folder_sees_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = digest_of(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = digest_of(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({before, renamed, digest_of(tmp_path)}) == 3


def test_a_bag_without_a_walk_is_refused_in_words(
    walk_bag: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    arguments = ["sim2real", "loop", str(walk_bag), "--folder", str(tmp_path / "loop")]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "none of the bags holds a walk to compare with" in capsys.readouterr().err


def test_staying_upright_comes_before_precision() -> None:
    walks = Tracking(0.2, 0.1, falls=0, stops=0, walks=3, settling=0.3)
    falls = Tracking(0.05, 0.1, falls=1, stops=0, walks=3, settling=0.2)
    assert min((falls, walks), key=lambda one: one.rank) is walks


def test_fine_tuning_keeps_the_clock_that_the_policy_walks_by() -> None:
    policy = load_own_bundle(ROOT / "policies" / "go2_walk")
    walked = next(term for term in policy.contract.observations[0].terms if term.name == CLOCK)
    config = load_training("go2_walk").with_clock(0.7)
    tuned = module.fine_tuning(config, policy, "tuned", 10, config.twin)
    (seen,) = (term for term in tuned.observation if term.name == CLOCK)
    assert tuned.gait.period == seen.params["period"] == walked.params["period"] != 0.7


def test_joint_friction_that_identification_cannot_see_comes_from_the_gap() -> None:
    spec, start = load_robot("go2"), load_imperfections()
    unseen = {"motors.friction": {"FR_hip_joint": IdentifiedFigure(verdict="not excited")}}
    provenance = Provenance(date="", version="", recordings={}, findings=unseen)
    file = TwinFile(robot="go2", about="", sources={}, twin=start, identified=provenance)
    worlds = [{"friction": 1.2}, {"friction": 1.6}]
    found, words = module._completed(file, {"worlds": worlds, "runs": []}, spec)
    before = np.asarray(per_joint(start.motors.friction, spec, ""))
    after = np.asarray(per_joint(found.twin.motors.friction, spec, ""))
    np.testing.assert_allclose(after, 1.4 * before)
    assert "1.4 times" in words[0]
    assert module._completed(file, {"worlds": []}, spec) == (file, [])


def test_fine_tuning_that_was_interrupted_is_not_called_done(tmp_path: Path) -> None:
    policy, config = load_own_bundle("go2_walk"), load_training("go2_walk")
    ppo = config.ppo.model_copy(update={"workers": 1, "environments": 4, "steps": 8})
    tuning = module.fine_tuning(config, policy, "tiny", 320, config.twin)
    tuning = tuning.model_copy(update={"ppo": ppo})

    def stop(words: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        module.fine_tune(tmp_path, tuning, 1, None, policy, {}, stop)
    assert not (tmp_path / TUNED).exists()
    done = module.fine_tune(tmp_path, tuning, 1, None, policy, {}, print)
    assert done["steps"] == 320
    assert load_own_bundle(tmp_path / TUNED).contract.name == "tiny"


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a minute and a half where nothing else runs
def test_the_whole_loop_with_a_tiny_budget_resumed_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weak robot, interrupted after each step: the same result as the second, uninterrupted."""
    spec = load_robot("go2")
    twin = World(strength=0.8).twin(spec, load_imperfections(), Floor())
    twin.reset(3)
    commands = ((0.4, 0.0, 0.0), (0.2, 0.0, 0.4))
    record_walk(tmp_path / "walk", 8.0, twin=twin, preset="default", commands=commands)
    small = load_training("go2_walk")
    ppo = small.ppo.model_copy(update={"workers": 1, "environments": 4, "steps": 8})
    config = tmp_path / "tiny.yaml"
    config.write_text(yaml.safe_dump(small.model_copy(update={"ppo": ppo}).model_dump(mode="json")))
    monkeypatch.setattr(module, "TRACK_SEEDS", range(9000, 9001))
    settings = Settings(
        (tmp_path / "walk",), "", "tiny", config=str(config), steps=64, scenarios="tiny", trials=1
    )
    monkeypatch.setattr(module, "scenario_set", lambda name: ["flat"])
    told: list[str] = []

    def interrupt(words: str) -> None:
        told.append(words)
        if words[0].isdigit() and words not in told[:-1]:
            raise KeyboardInterrupt

    for _ in range(module.STEPS):
        with pytest.raises(KeyboardInterrupt):
            run_loop(settings, tmp_path / "loop", interrupt)
    done = run_loop(settings, tmp_path / "loop", interrupt)
    again = run_loop(settings, tmp_path / "loop", told.append)
    assert all(step.cached for step in again.steps)
    assert [s.result for s in done.steps] == [s.result for s in again.steps]
    bundle = load_own_bundle(again.bundle)
    assert bundle.contract.provenance["loop"]["bags"] == {"walk": digest_of(tmp_path / "walk")}
    found = load_imperfections(str(again["learn"].folder / "twin.yaml")).motors.strength
    assert isinstance(found, dict)
    assert found["FR_hip_joint"] == pytest.approx(0.8, rel=0.02)
    assert found["FR_calf_joint"] == pytest.approx(0.8 * 0.86, rel=0.02)
    assert (
        again["gap_after"].result["runs"][0]["gap"] < again["gap_before"].result["runs"][0]["gap"]
    )
    tracked = again["track"].result
    assert tracked["chosen"] == "gains"  # 64 steps of training only unlearn
    assert tracked["after"]["velocity"] < 0.8 * tracked["before"]["velocity"]
    kp = np.array(bundle.contract.kp) / np.array(load_own_bundle("go2_walk").contract.kp)
    np.testing.assert_allclose(kp, 1 / 0.8, rtol=0.02)
    assert "not learnt: only" in again["learn"].result["actuator"]
    assert "not learnt: only" in again["learn"].result["action"]
    write_loop_page(tmp_path / "page.html", again)
    assert "m/s before" in headline(again)


@pytest.mark.slow
def test_tracking_counts_a_fall_as_standing_still() -> None:
    spec = load_robot("go2")
    weak = World(strength=0.3).imperfections(spec, load_imperfections())
    bundle = load_own_bundle("go2_walk")
    good = track(bundle, open_robot(FIRST, spec, Floor(), load_imperfections()), range(1))
    assert good.falls == good.stops == 0
    assert good.velocity < 0.1 < good.settling  # no robot changes its speed at once
    bad = track(bundle, open_robot(FIRST, spec, Floor(), weak), range(1))
    assert bad.falls + bad.stops == 1
    assert bad.velocity > good.velocity
    assert commands_of(0)[0].tolist() == [0.5, 0.0, 0.0]
