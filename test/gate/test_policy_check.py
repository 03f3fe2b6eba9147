"""The check's walk in the twin: a sound policy passes, and a wrong order is found out."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim2real_deploy.checks import exit_code
from sim2real_deploy.cli import app
from sim2real_deploy.cli import policy as _verb  # noqa: F401  registers itself
from sim2real_deploy.errors import Refusal
from sim2real_deploy.gate import policy_check
from sim2real_deploy.gate.drive import Drive
from sim2real_deploy.gate.policy_check import find_order
from sim2real_deploy.policy.alternatives import alternatives
from sim2real_deploy.policy.bundle import Bundle, load_bundle
from sim2real_deploy.policy.importers.assemble import import_policy
from sim2real_deploy.policy.importers.draft import Answers
from sim2real_deploy.robots import load_robot
from sim2real_deploy.twin.robot import TwinRobot
from support.import_samples import SHARED
from support.policy_samples import contract_for, network, sample_bundle, write_bundle

GO2 = load_robot("go2")
samples = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no sample policies in {SHARED}")


def nothing(what: str) -> None:
    """Nobody listens to the progress."""


def unused(path: Path, size: int) -> bytes:
    raise AssertionError(path)


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    folder = tmp_path_factory.mktemp("policy") / "go2"
    return import_policy(SHARED / "unitree_rl_lab_go2", folder, Answers(), unused).bundle


def mislabelled(bundle: Bundle) -> Bundle:
    """The same network with its joints named in the gym order."""
    names = GO2.joint_orders["gym"]
    values = {
        "joints": names,
        "default_position": tuple(GO2.stand_pose[GO2.joint_names.index(n)] for n in names),
    }
    contract = bundle.contract.model_copy(update=values)
    action = contract.action.model_copy(update={"offset": contract.default_position})
    return Bundle(bundle.folder, contract.model_copy(update={"action": action}), GO2, bundle.model)


def test_commands_stay_inside_what_was_trained(tmp_path: Path) -> None:
    bundle = load_bundle(sample_bundle(tmp_path / "policy", GO2), GO2)
    asked = list(policy_check.commands(bundle))
    assert asked[0] == (0.0, 0.0, 0.0)
    assert (0.5, 0.0, 0.0) in asked
    assert (0.0, -0.4, 0.0) in asked
    assert len(asked) == 7


def test_alternatives_are_other_orders_of_the_same_policy(tmp_path: Path) -> None:
    bundle = load_bundle(sample_bundle(tmp_path / "policy", GO2), GO2)
    found = dict(alternatives(bundle))
    assert any("isaac" in words for words in found)
    assert any("himloco" in words for words in found)
    for other in found.values():
        assert other.contract != bundle.contract
        assert sorted(other.contract.joints) == sorted(bundle.contract.joints)


def test_check_on_paper_writes_json_and_passes(tmp_path: Path) -> None:
    folder = sample_bundle(tmp_path / "policy", GO2)
    arguments = ["policy", "check", str(folder), "--paper", "--json", str(tmp_path / "out.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert '"golden steps, largest error"' in (tmp_path / "out.json").read_text()


def test_a_refused_bundle_leaves_its_reason_in_the_json(tmp_path: Path) -> None:
    folder = sample_bundle(tmp_path / "policy", GO2)
    file = folder / "policy.yaml"
    file.write_text(file.read_text().replace("rate_hz: 50.0", "rate_hz: 49.0"))
    arguments = ["policy", "check", str(folder), "--json", str(tmp_path / "out.json")]
    assert CliRunner().invoke(app, arguments).exit_code != 0
    assert "rate_hz: 49" in (tmp_path / "out.json").read_text()


def test_diff_and_info_read_for_people(tmp_path: Path) -> None:
    folder = sample_bundle(tmp_path / "policy", GO2)
    card = CliRunner().invoke(app, ["policy", "info", str(folder)])
    assert card.exit_code == 0
    assert "FR_hip_joint" in card.output
    same = CliRunner().invoke(app, ["policy", "diff", str(folder), str(folder)])
    assert (same.exit_code, same.output) == (0, "Their contracts and actions are the same.\n")


@samples
def test_a_policy_that_walks_passes(walker: Bundle) -> None:
    seen = policy_check.walk(walker, nothing)
    assert exit_code([check for one in seen for check in one.checks()]) == 0


@samples
@pytest.mark.slow
def test_the_order_that_would_walk_is_named(walker: Bundle) -> None:
    wrong = mislabelled(walker)
    seen = policy_check.walk(wrong, nothing)
    assert exit_code([check for one in seen for check in one.checks()]) == 1
    found = policy_check.orders_that_walk(wrong, nothing)
    assert any("isaac" in words for words in found)
    assert not any("sdk" in words for words in found)


@samples
def test_what_fails_is_named_by_move_and_joint(walker: Bundle) -> None:
    """Falling at once is told of every move, with the joint that worked hardest."""
    seen = policy_check.Walker(mislabelled(walker)).follow((0.5, 0.0, 0.0))
    assert not seen.ok
    assert seen.failure().startswith("vx +0.5: ")
    assert any(name in seen.failure() for name in GO2.joint_names)


def test_a_policy_that_drags_its_head_does_not_pass() -> None:
    seen = policy_check.CommandOutcome((0.5, 0.0, 0.0), (0.5, 0.0, 0.0), 0.1, False, ("head",), "")
    assert not seen.ok
    assert "touches with head" in seen.failure()


def test_most_moves_done_speak_for_the_orders() -> None:
    good = policy_check.CommandOutcome((0.5, 0.0, 0.0), (0.5, 0.0, 0.0), 0.1, False)
    bad = policy_check.CommandOutcome((0.0, 0.5, 0.0), (0.0, 0.0, 0.0), 0.1, False)
    assert policy_check.walks_in_part([good, good, bad])
    assert not policy_check.walks_in_part([good, bad, bad])


@samples
@pytest.mark.slow
def test_an_order_left_open_is_found_in_the_twin(walker: Bundle) -> None:
    """The assumed order falls, another does every move: that one is answered."""
    bundles = {"gym": mislabelled(walker), "isaac": walker}

    def bring_in(answers: dict[str, str]) -> Bundle:
        return bundles[answers.get("joints", "gym")]

    assert find_order({"joints": ("gym", "isaac")}, bring_in, nothing) == {"joints": "isaac"}
    assert find_order({"joints": ("isaac", "gym")}, lambda answers: walker, nothing) == {}


@pytest.fixture
def leaning(tmp_path: Path) -> Bundle:
    """A humanoid that stays near its default pose, and so leans into its rope."""
    g1 = load_robot("g1")
    model = network(9 + 3 * g1.joint_count, g1.joint_count)
    content = contract_for(g1, model, kp=[40.0] * g1.joint_count, kd=[2.0] * g1.joint_count)
    return load_bundle(write_bundle(tmp_path / "leaning", content, model), g1)


def test_a_robot_that_only_its_hoist_holds_fails_each_move(leaning: Bundle) -> None:
    """Also the moves after the first one: they are not walked on the rope."""
    walker = policy_check.Walker(leaning)
    for command in (policy_check.STILL, (0.3, 0.0, 0.0)):
        assert walker.follow(command).fell


def test_a_rope_that_stays_taut_is_taken_off_and_the_robot_must_stand(leaning: Bundle) -> None:
    """A policy may stand lower than the robot's own pose: then it never goes slack by itself."""
    twin = TwinRobot(leaning.spec)
    twin.reset(0)
    drive = Drive(leaning, twin)
    drive.stand()
    assert twin.hangs
    with pytest.raises(Refusal, match="does not stand by itself"):
        drive.walk()
    assert not twin.hangs
