"""The batch of robots that training learns from: repeatable, randomised as told, and fair."""

from collections.abc import Callable

import numpy as np
import pytest

from sim2real_deploy.policy.contract import Group
from sim2real_deploy.policy.observations import Observation
from sim2real_deploy.policy.terms import BatchInput, TermInput
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import TrainingConfig, load_training
from sim2real_deploy.training.curriculum import TerrainCurriculum
from sim2real_deploy.training.environment import MISSED, MISSED_SCALE, Environment
from sim2real_deploy.training.model import training_model
from sim2real_deploy.training.nominal import load_nominal
from sim2real_deploy.training.observation import Observer
from sim2real_deploy.training.pushes import Pushes
from sim2real_deploy.training.randomisation import AdaptiveWidth, Drawn
from sim2real_deploy.training.terrain import make_tiles
from sim2real_deploy.twin.files import load_imperfections

CONFIG = load_training("go2_walk")
ROUGH = load_training("go2_rough")
ROBOT = load_robot("go2")
JOINTS = len(ROBOT.joints)


def with_width(value: float, config: TrainingConfig = CONFIG) -> TrainingConfig:
    ranges = config.randomisation
    width = ranges.width.model_copy(update={"start": value, "least": 0.0})
    return config.model_copy(update={"randomisation": ranges.model_copy(update={"width": width})})


def walk(seed: int, steps: int = 20) -> np.ndarray:
    environment = Environment(with_width(1.0), ROBOT, 4, seed)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        outcome = environment.step(rng.normal(0, 0.3, (4, JOINTS)).astype(np.float32))
    return outcome.privileged


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    assert (walk(5) == walk(5)).all()
    assert (walk(5) != walk(6)).any()


def test_training_sees_what_the_deployed_policy_will_see() -> None:
    """Frame after frame, history included, from the first one on."""
    rng = np.random.default_rng(1)
    group = Group(input="observation", terms=CONFIG.observation)
    deployed = Observation(
        group, TermInput.nothing(ROBOT.stand_pose.tolist()), ROBOT.joint_names, ""
    )
    values = np.zeros(len(deployed.labels), np.float32)
    deployed.place(values)
    trained = Observer(CONFIG, ROBOT, 1)
    seen = TermInput.nothing(ROBOT.stand_pose.tolist())
    for step in range(7):
        turning, gravity, command = rng.normal(size=(3, 3)).astype(np.float32)
        q, dq, action = rng.normal(size=(3, JOINTS)).astype(np.float32)
        seen.gyroscope, seen.gravity, seen.command = turning, gravity, command
        seen.q, seen.dq, seen.action = (ROBOT.stand_pose + q).tolist(), dq, action
        seen.time_s = step / CONFIG.control.rate_hz
        deployed.push(seen)
        phase = np.array([seen.time_s / CONFIG.gait.period % 1], np.float32)
        parts = (part[None] for part in (turning, gravity, command, q, dq, action))
        frame = trained.values(BatchInput(*parts, phase))
        assert trained.remember(frame, np.array([step == 0]))[0] == pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize("width", [0.0, 0.5, 1.0])
def test_values_are_drawn_round_the_nominal_from_the_share_of_each_range_in_force(
    width: float,
) -> None:
    rng, ranges = np.random.default_rng(0), CONFIG.randomisation
    drawn = Drawn(200, JOINTS, 5, load_nominal(CONFIG.twin, ROBOT))
    for env in range(200):
        drawn.draw(env, ranges, width, rng)
    for name, nominal in drawn.nominal.items():
        low, high = getattr(ranges, name)
        reach_low, reach_high = width * (low - nominal), width * (high - nominal)
        assert drawn[name].min() >= nominal + reach_low - 1e-12
        assert drawn[name].max() <= nominal + reach_high + 1e-12
        assert np.ptp(drawn[name]) >= 0.7 * (reach_high - reach_low)
        assert abs(np.median(drawn[name]) - nominal) <= 0.5 * max(-reach_low, reach_high) + 1e-12


def test_randomised_values_reach_the_physics() -> None:
    environment = Environment(with_width(1.0), ROBOT, 3, seed=0)
    masses = {float(model.body_mass.sum()) for model in environment.physics.models}
    frictions = {float(model.geom("floor").friction[0]) for model in environment.physics.models}
    gains = {float(model.actuator_gainprm[0, 0]) for model in environment.physics.models}
    assert len(masses) == len(frictions) == len(gains) == 3
    plain = environment.physics.plain[0]
    calf = plain.joint("FR_calf_joint")
    made_of = load_imperfections(CONFIG.twin).motors
    assert calf.frictionloss[0] == made_of.friction["calf_joint"]
    assert calf.damping[0] == made_of.damping["calf_joint"]
    assert plain.actuator_gainprm[0, 0] == CONFIG.control.kp  # the original is left alone


def test_pushes_from_the_side_come_from_the_robots_own_side() -> None:
    ranges = CONFIG.randomisation.model_copy(update={"push_sideways": 1.0})
    config = with_width(1.0).model_copy(update={"randomisation": ranges})
    environment = Environment(config, ROBOT, 8, seed=0)
    physics = environment.physics
    for env in range(8):
        before = physics.velocity[env].copy()
        environment._push(env)
        pushed = np.zeros((8, 3))
        pushed[env] = physics.velocity[env] - before
        forward, left, _ = physics.in_body(pushed)[env]
        speed = np.hypot(*pushed[env, :2])
        assert abs(left) > 0.8 * speed > 0.8 * abs(forward)


def pushed_often(fell: Callable[[float], bool], motion: float) -> list[float]:
    """How far from its motion each of 600 pushes comes, when `fell` tells which of them fell it."""
    ranges = CONFIG.randomisation.model_copy(update={"push_sideways": 0.0, "push_weakest": 1.0})
    pushes = Pushes(1, AdaptiveWidth(ranges.width, 0.5))
    rng, directions = np.random.default_rng(3), []
    for _ in range(600):
        speed, angle = pushes.draw(0, ranges, motion, rng)
        assert 0.5 * ranges.push_speed[0] <= speed <= 0.5 * ranges.push_speed[1]
        away = abs((angle - motion + np.pi) % (2 * np.pi) - np.pi)
        assert pushes.ended(0, fell(away))
        assert not pushes.ended(0, fell=True)  # each counts once
        directions.append(away)
    return directions


@pytest.mark.parametrize("motion", [0.0, 2.0])
def test_most_pushes_come_from_where_most_end_in_a_fall(motion: float) -> None:
    weak = pushed_often(lambda away: 0.6 < away < 1.0, motion)
    alike = pushed_often(lambda away: True, motion)
    assert np.mean([0.5 < away < 1.1 for away in weak[300:]]) > 0.6
    assert np.mean([0.5 < away < 1.1 for away in alike[300:]]) == pytest.approx(0.19, abs=0.06)
    assert max(weak[300:]) > 2.0  # and some from everywhere: it may forget


def test_pushes_are_counted_once_it_is_known_how_they_ended() -> None:
    environment = Environment(ROUGH, ROBOT, 8, 1)
    flat = int(np.flatnonzero(~environment._uneven)[0])
    uneven = int(np.flatnonzero(environment._uneven)[0])
    for env in (flat, uneven):
        environment._push(env)
    assert environment.sums["pushes"] == 0
    environment._push(flat)
    environment._push(uneven)
    assert (environment.sums["pushes"], environment.sums["withstood"]) == (1, 1)
    environment._finish(flat, fell=True)
    environment._finish(uneven, fell=True)
    environment._finish(flat, fell=True)  # an episode without a push
    assert (environment.sums["pushes"], environment.sums["withstood"]) == (2, 1)


def test_a_robot_that_leans_is_not_calm() -> None:
    environment = Environment(with_width(0.0), ROBOT, 3, seed=0)
    environment.command[:] = 0.0
    environment.command[2, 0] = 0.5
    for env, roll in enumerate((0.02, 0.2, 0.02)):
        still = {"q": environment.default, "speed": np.zeros(6)}
        environment.physics.place(env, ROBOT.base_height, np.array([roll, 0.0, 1.0]), **still)
    assert environment._snapshot().calm.tolist() == [True, False, False]


def test_a_robot_recovers_for_a_while_after_a_push_and_not_after_a_reset() -> None:
    config = with_width(0.0)
    gait = config.gait.model_copy(update={"recovery": 0.1})  # five control steps
    environment = Environment(config.model_copy(update={"gait": gait}), ROBOT, 3, seed=0)
    environment._age[:] = 10
    environment._push(1)
    environment._push(2)
    environment._reset(2)
    environment._age[:] += 4
    assert environment._snapshot().recovering.tolist() == [False, True, False]
    environment._age[:] += 1
    assert not environment._snapshot().recovering.any()


def test_the_critic_is_told_how_far_the_wanted_velocity_is_missed() -> None:
    environment = Environment(with_width(0.0), ROBOT, 1, seed=0)
    environment.physics.place(
        0,
        ROBOT.base_height,
        attitude=np.zeros(3),
        q=environment.default,
        speed=np.array([0.4, -0.1, 0.05, 0.0, 0.0, 0.7]),
    )
    environment.command[0] = 0.5, 0.2, 1.0
    missed = environment.observe()[1][0, MISSED] / MISSED_SCALE
    assert missed == pytest.approx([-0.1, -0.3, -0.3], abs=1e-6)


def test_width_grows_with_success_and_shrinks_with_falls() -> None:
    settings = CONFIG.randomisation.width
    width = AdaptiveWidth(settings, 0.5)
    width.count(settings.episodes - 1, settings.episodes - 1)
    assert width.value == 0.5  # not enough seen to decide
    width.count(1, 1)
    assert width.value == pytest.approx(0.5 + settings.step)
    between = (settings.widen_above + settings.narrow_below) / 2
    width.count(settings.episodes, between * settings.episodes)
    assert width.value == pytest.approx(0.5 + settings.step)
    width.count(settings.episodes, (settings.narrow_below - 0.01) * settings.episodes)
    assert width.value == pytest.approx(0.5)
    for _ in range(100):
        width.count(settings.episodes, settings.episodes)
    assert width.value == 1.0
    for _ in range(100):
        width.count(settings.episodes, 0)
    assert width.value == settings.least


def test_terrain_may_begin_at_a_higher_level() -> None:
    for start, levels in ((0.0, 0), (0.5, 4), (1.0, 9)):  # of ten levels of stairs
        curriculum = TerrainCurriculum(ROUGH.terrain.model_copy(update={"start": start}), 100)
        assert set(curriculum.level[curriculum.on("stairs")]) == {levels}
        assert set(curriculum.level[curriculum.on("flat")]) == {0}


def test_terrain_gets_harder_for_who_goes_the_way_and_easier_for_who_does_not() -> None:
    rng = np.random.default_rng(0)
    curriculum = TerrainCurriculum(ROUGH.terrain.model_copy(update={"start": 0.0}), 100)
    shares = [kind.share for kind in ROUGH.terrain.kinds]
    counts = np.bincount(curriculum.kind)
    assert counts == pytest.approx(100 * np.array(shares) / sum(shares), abs=1)
    env = int(np.flatnonzero(curriculum.on("stairs"))[0])

    def level(fell: bool, gone: float, told: float) -> int:
        curriculum.finish(env, fell, gone, told, rng)
        return int(curriculum.level[env])

    assert [level(False, 5, 5), level(False, 5, 5)] == [1, 2]
    assert level(False, 3, 5) == 2  # neither far nor stuck
    assert level(False, 0.4, 0.5) == 2  # told to go nowhere: that says nothing
    assert level(True, 5, 5) == 1
    assert level(False, 1, 5) == 0
    assert curriculum.mean_levels()["stairs"] == 0
    last = len(next(kind for kind in ROUGH.terrain.kinds if kind.kind == "stairs").levels) - 1
    assert {level(False, 5, 5) for _ in range(100)} == set(range(last + 1))
    assert curriculum.mean_levels()["slope"] == 0


def test_a_run_goes_on_at_the_levels_it_had_even_where_there_are_fewer_now() -> None:
    curriculum = TerrainCurriculum(ROUGH.terrain, 100)
    curriculum.resume({"stairs": 4.6, "slope": 99.0, "lava": 3.0})
    levels = curriculum.mean_levels()
    assert (levels["stairs"], levels["slope"], levels["gaps"]) == (5.0, 5.0, 0.0)


def test_every_terrain_is_what_it_says_and_fits_the_same_batch() -> None:
    sizes = set()
    heights_of = {kind.kind: kind.levels for kind in ROUGH.terrain.kinds}
    for tile in make_tiles(ROUGH.terrain, seed=1):
        heights, wanted = tile.heights(), heights_of[tile.kind][tile.level]
        steepest = np.abs(np.diff(heights, axis=1)).max()
        if tile.kind == "flat":
            assert not heights.any()
        elif tile.kind == "slope":
            assert steepest / 0.025 == pytest.approx(wanted, rel=1e-6)
        elif tile.kind in ("stairs", "stairs_down"):
            assert steepest == pytest.approx(wanted)
        elif tile.kind == "rough":
            assert np.ptp(heights) >= 0.5 * wanted
        elif tile.kind == "obstacles":
            assert 0.6 * wanted <= heights.max() <= wanted
        else:
            assert (heights.min(), heights.max()) == (-wanted, 0.0)
            low = (heights < 0).mean()  # a gap in each slab's length
            assert 0.06 < low < 0.2
        model = training_model(ROBOT, ROUGH, load_nominal(ROUGH.twin, ROBOT), tile, boxes=14)
        sizes.add((model.nq, model.nv, model.ngeom, model.nsensordata, model.nbody, model.nbvh))
    assert len(sizes) == 1


def test_a_robot_lands_on_its_feet_on_each_terrain() -> None:
    count = 40
    environment = Environment(with_width(0.0, ROUGH), ROBOT, count, seed=2)
    rng = np.random.default_rng(0)
    for env in range(count):
        levels = len(ROUGH.terrain.kinds[environment.terrain.kind[env]].levels)
        environment.terrain.level[env] = rng.integers(levels)
        environment._reset(env)
    environment.physics.q[:] = ROBOT.stand_pose
    environment.physics.velocity[:] = environment.physics.turning[:] = 0
    environment._next_push[:] = 10_000
    for _ in range(10):
        outcome = environment.step(np.zeros((count, JOINTS), np.float32))
        assert not outcome.fell.any()
    assert environment._contact.sum(1).min() >= 2
    assert np.abs(environment._foot_height[environment._contact]).max() < 0.05


def test_no_foot_starts_inside_the_ground() -> None:
    """In a height field it would be held for good."""
    kinds = tuple(k.model_copy(update={"share": 1.0}) for k in ROUGH.terrain.kinds[:2])
    terrain = ROUGH.terrain.model_copy(update={"kinds": kinds})
    config = with_width(0.0, ROUGH).model_copy(update={"terrain": terrain})
    environment = Environment(config, ROBOT, 60, seed=3)
    rough = environment.terrain.on("rough")
    environment.terrain.level[rough] = 4
    for env in range(60):
        environment._reset(env)
    environment._next_push[:] = environment._next_command[:] = 10_000
    still = np.zeros((60, JOINTS), np.float32)
    environment.physics.velocity[:] = 0.0
    environment.step(still)
    assert environment._foot_height[rough].min() > -0.01


def test_the_ground_is_felt_where_it_is() -> None:
    environment = Environment(with_width(0.0, ROUGH), ROBOT, 40, seed=2)
    env = int(np.flatnonzero(environment.terrain.on("stairs"))[0])
    environment.terrain.level[env] = 7
    environment._reset(env)
    rise = environment.config.terrain.kinds[3].levels[7]
    first = environment.physics.models[env].geom("floor_6")
    edge = first.pos[0] - first.size[0]  # the first stair on the way along +x
    physics = environment.physics
    still = {"q": environment.default, "speed": np.zeros(6)}
    physics.place(env, ROBOT.base_height, np.zeros(3), **still, at=(edge - 0.25, 0.0))
    environment._way[env] = 1.0, 0.0
    environment.command[env] = 0.5, 0.0, 0.0
    environment.step(np.zeros((40, JOINTS), np.float32))
    front = [leg.startswith("F") for leg in ROBOT.legs]
    assert environment._step_ahead[env] == pytest.approx(np.where(front, rise, 0), abs=1e-6)
    assert environment._slope[env, 0] > 0.05
    assert environment._slope[env, 1] == pytest.approx(0, abs=1e-6)


def test_a_robot_on_its_side_has_fallen_and_starts_again() -> None:
    environment = Environment(with_width(0.0), ROBOT, 2, seed=0)
    environment.physics.quaternion[0] = [0.5**0.5, 0.5**0.5, 0, 0]
    outcome = environment.step(np.zeros((2, JOINTS), np.float32))
    assert outcome.fell.tolist() == [True, False]
    assert environment._age.tolist()[0] == 0
    assert environment.sums["fell"] == 1
    upright = environment._gravity()[0]
    assert upright[2] < -0.9


def test_a_reward_that_only_polishing_names_counts_from_then_on() -> None:
    rewards = {name: weight for name, weight in CONFIG.rewards.items() if name != "tilt"}
    polish = CONFIG.polish.model_copy(update={"rewards": {"tilt": -1.0}})
    config = CONFIG.model_copy(update={"rewards": rewards, "polish": polish})
    environment = Environment(config, ROBOT, 2, seed=0)
    for done in (0.0, 1.0):
        environment.config = config.at(done)
        environment.step(np.zeros((2, JOINTS), np.float32))
        assert (environment.reward_sums["tilt"] < 0) == (done == 1.0)


def test_a_delayed_action_moves_the_joints_later() -> None:
    moved = {}
    for delay in (0.0, 0.02):
        environment = Environment(with_width(0.0), ROBOT, 1, seed=0)
        environment.drawn["delay"][:] = delay
        before = environment.physics.q[0, 0]
        environment.step(np.full((1, JOINTS), 2.0, np.float32))
        moved[delay] = abs(environment.physics.q[0, 0] - before)
    assert moved[0.02] < moved[0.0] / 2


def test_a_robot_that_is_too_fast_sees_a_lower_command() -> None:
    environment = Environment(CONFIG, ROBOT, 2, seed=0)
    gain = 1.5
    seen, _ = environment.observe()
    too_fast = np.zeros(environment.felt.stop, np.float32)
    too_fast[MISSED] = np.array([0.1, -0.05, 0.3], np.float32) * MISSED_SCALE
    environment.command[:] = environment.command - gain * np.array([0.1, -0.05, 0.3])
    wanted, _ = environment.observe()
    columns, _ = environment.observer.newest("velocity_command")
    steered = (seen + too_fast @ environment.steering(gain))[:, columns]
    assert steered == pytest.approx(wanted[:, columns], abs=1e-5)
    changed = np.flatnonzero(environment.steering(gain).any(0))
    assert changed.tolist() == columns.tolist()
