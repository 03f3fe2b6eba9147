"""`sim2real bench loop`: what it keeps, how it judges, which robots it hides."""

from pathlib import Path
from typing import Any

from sim2real_deploy.bench.loop import HIDDEN, Kept, _judged, commands_of
from sim2real_deploy.bench.loop_robots import hidden_twin
from sim2real_deploy.policy.bundle import load_own_bundle
from sim2real_deploy.twin.config import Imperfections, Trunk
from sim2real_deploy.twin.files import load_imperfections


def gap(name: str = "", size: float = 0.0, auc: float = 0.5) -> dict[str, Any]:
    return {"causes": [{"name": name, "size": size}] if name else [], "auc": auc, "gap": 0.1}


def test_results_are_kept_by_all_they_depend_on(tmp_path: Path) -> None:
    path, bundle = tmp_path / "gaps.jsonl", load_own_bundle("go2_walk")
    Kept(path, bundle, Imperfections()).add("nothing", 3, gap())
    with path.open("a") as stream:
        stream.write('{"key": "cut o')  # by an interruption
    again = Kept(path, bundle, Imperfections())
    assert again.get("nothing", 3) == gap()
    assert again.get("nothing", 4) is None
    other = Kept(path, bundle, Imperfections(trunk=Trunk(mass=1.0)))
    assert other.get("nothing", 3) is None


def test_a_cause_must_come_first_and_be_of_the_right_size() -> None:
    hidden = HIDDEN["payload +2 kg"]
    right = [gap("payload", 1.7), gap("payload", 2.39)]
    wrong = [gap("payload", 2.5), gap("delay", 2.0), gap()]
    assert _judged([*right, *wrong], hidden)[1] == 2
    nothing = HIDDEN["nothing"]
    assert _judged([gap(), gap(auc=0.56), gap("payload", 0.6)], nothing)[1] == 1


def test_hidden_robots_differ_and_are_the_same_again() -> None:
    bundle, nominal = load_own_bundle("go2_walk"), load_imperfections()
    robots = [hidden_twin(bundle, nominal, number) for number in range(5)]
    assert robots == [hidden_twin(bundle, nominal, number) for number in range(5)]
    assert len({robot.model_dump_json() for robot in robots}) == 5
    for robot in robots:
        strengths = robot.motors.strengths(bundle.spec) / nominal.motors.strengths(bundle.spec)
        assert 0.6 < strengths.min() < strengths.max() < 0.95
        assert robot.trunk.mass > nominal.trunk.mass
    assert commands_of(1, 500.0).shape == (10_000, 3)
