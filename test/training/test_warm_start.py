"""A warm start: the new actor does what the old policy did, though it is wider and sees more."""

import numpy as np
import pytest
import torch

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import load_own_bundle
from sim2real_deploy.robots import load_robot
from sim2real_deploy.training.config import load_training
from sim2real_deploy.training.environment import MISSED_SCALE, Environment
from sim2real_deploy.training.ppo import Felt
from sim2real_deploy.training.trainer import make_learner
from sim2real_deploy.training.warm_start import warm_start

ROUGH = load_training("go2_rough")
CONFIG = ROUGH.model_copy(
    update={"network": ROUGH.network.model_copy(update={"warm_start": "go2_walk"})}
)


def test_it_acts_as_the_policy_it_was_made_from() -> None:
    bundle = load_own_bundle("go2_walk")
    network = load_training("go2_walk").network
    environment = Environment(CONFIG, load_robot("go2"), 1, seed=0)
    actor = make_learner(CONFIG, environment).actor
    warm_start(actor, CONFIG)
    steering = torch.from_numpy(environment.steering(network.exported_gain))
    actor._felt = Felt(environment.felt, steering, MISSED_SCALE * network.steering_reach)
    old_terms, new_terms = bundle.contract.observations[0].terms, CONFIG.observation
    rng = np.random.default_rng(0)
    for golden in bundle.contract.golden:
        old = np.array(golden.inputs["observation"], np.float32)
        new, at = [], 0
        for before, now in zip(old_terms, new_terms, strict=True):
            size = environment.observer.newest(now.name)[0].size
            frames = old[at : at + size * before.history]
            at += frames.size
            older = rng.normal(size=size * (now.history - before.history))
            new += [older, frames]
        seen = torch.from_numpy(np.concatenate(new).astype(np.float32))
        assert actor(seen[None])[0].detach().numpy() == pytest.approx(golden.action, abs=1e-4)


def test_what_is_seen_for_the_first_time_changes_nothing_yet() -> None:
    bundle, config = load_own_bundle("go2_rough"), load_training("go2_perceptive")
    environment = Environment(config, load_robot("go2"), 1, seed=0)
    actor = make_learner(config, environment).actor
    warm_start(actor, config)
    steering = torch.from_numpy(environment.steering(config.network.exported_gain))
    actor._felt = Felt(environment.felt, steering, MISSED_SCALE * config.network.steering_reach)
    heights = np.random.default_rng(0).normal(size=85)
    for golden in bundle.contract.golden:
        seen = np.concatenate([golden.inputs["observation"], heights]).astype(np.float32)
        acted = actor(torch.from_numpy(seen)[None])[0].detach().numpy()
        assert acted == pytest.approx(golden.action, abs=1e-4)


def test_a_policy_of_other_layers_is_refused() -> None:
    network = CONFIG.network.model_copy(update={"hidden": (16, 8)})
    small = CONFIG.model_copy(update={"network": network})
    actor = make_learner(small, Environment(small, load_robot("go2"), 1, seed=0)).actor
    with pytest.raises(Refusal, match="smaller than the policy's"):
        warm_start(actor, small)
