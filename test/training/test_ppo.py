"""The learner on problems whose answers are known."""

import pytest
import torch

from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.config import NetworkConfig, load_training
from sim2real_deploy.training.ppo import Batch, Felt, Learner, advantages, log_probability

PPO = load_training("go2_walk").ppo
NETWORK = NetworkConfig(
    hidden=(32,),
    feeling=(16,),
    steering_gain=0.0,
    exported_gain=0.0,
    steering_reach=0.0,
    initial_std=0.5,
    final_std=0.1,
)
FELT = Felt(slice(0, 1), torch.zeros(1, 1), 0.0)  # in these games: what is seen
STEPS, COUNT = 8, 64
torch.set_num_threads(1)  # tiny networks: a second thread only waits


def test_advantages_by_hand() -> None:
    batch = Batch.empty(3, 1, 1, 1, 1)
    batch.reward[:, 0] = torch.tensor([1.0, 2.0, 3.0])
    batch.value[:, 0] = torch.tensor([0.5, 1.0, 1.5])
    batch.ended[1, 0] = 1.0  # nothing after it may count for what came before
    third = 3.0 + 0.9 * 4.0 - 1.5
    second = 2.0 - 1.0
    first = (1.0 + 0.9 * 1.0 - 0.5) + 0.9 * 0.8 * second
    result = advantages(batch, torch.tensor([4.0]), gamma=0.9, lam=0.8)
    assert result[:, 0].tolist() == pytest.approx([first, second, third])


def test_log_probability_is_the_normal_distribution_s() -> None:
    action, mean, log_std = torch.randn(5, 3), torch.randn(5, 3), torch.tensor([0.1, -0.5, 0.3])
    expected = torch.distributions.Normal(mean, log_std.exp()).log_prob(action).sum(-1)
    assert torch.allclose(log_probability(action, mean, log_std), expected, atol=1e-5)


def play(learner: Learner, rounds: int, lowest: float, power: int = 1) -> float:
    """A game of one move: give back a power of what you see. Returns the last mean reward."""
    batch = Batch.empty(STEPS, COUNT, 1, 1, 1)
    for _ in range(rounds):
        with torch.no_grad():
            seen = torch.rand(STEPS, COUNT, 1) * (1 - lowest) + lowest
            action, log_prob, mean = learner.actor.sample(seen)
            batch.observation, batch.privileged = seen, seen
            batch.action, batch.mean, batch.log_probability = action, mean, log_prob
            batch.value = learner.value(seen)
            batch.reward = -(action - seen**power).square().squeeze(-1)
            batch.ended = torch.ones(STEPS, COUNT)
        learner.learn(batch, torch.zeros(COUNT))
    return float(batch.reward.mean())


def test_it_learns_to_give_back_what_it_sees() -> None:
    torch.manual_seed(0)
    learner = Learner(1, 1, 1, NETWORK, PPO, FELT)
    before = play(learner, 1, lowest=-1.0)
    after = play(learner, 60, lowest=-1.0)
    assert after > before / 4  # rewards are negative
    seen = torch.tensor([[-0.8], [0.0], [0.8]])
    assert torch.allclose(learner.actor(seen), seen, atol=0.25)


def test_the_mirror_teaches_the_side_that_was_never_seen() -> None:
    seen = torch.tensor([[-0.8], [-0.5]])
    error = {}
    for mirrored in (False, True):
        torch.manual_seed(0)
        turn_over = (lambda values: -values) if mirrored else None
        learner = Learner(1, 1, 1, NETWORK, PPO, FELT, turn_over, turn_over)
        play(learner, 60, lowest=0.0, power=3)
        error[mirrored] = (learner.actor(seen) - seen**3).abs().max().item()
    assert error[True] < 0.25
    assert error[True] < error[False] / 2


def one_sided_batch(learner: Learner) -> Batch:
    """Precise actions of a policy that is far from symmetric: no mirrored one is ever taken."""
    with torch.no_grad():
        list(learner.actor.act.parameters())[-1].fill_(2.0)
        learner.actor.log_std.fill_(-6.0)
        batch = Batch.empty(STEPS, COUNT, 1, 1, 1)
        batch.observation = torch.rand(STEPS, COUNT, 1)
        batch.action, batch.log_probability, batch.mean = learner.actor.sample(batch.observation)
        batch.reward = torch.randn(STEPS, COUNT)
        batch.ended = torch.ones(STEPS, COUNT)
    return batch


def test_an_actor_that_prefers_one_side_becomes_symmetric() -> None:
    torch.manual_seed(0)
    learner = Learner(1, 1, 1, NETWORK, PPO, FELT, lambda values: -values, lambda values: -values)
    with torch.no_grad():
        list(learner.actor.act.parameters())[-1].fill_(0.5)
    batch, asymmetry = Batch.empty(STEPS, COUNT, 1, 1, 1), []
    batch.ended[:] = 1.0
    for _ in range(40):  # no action is better than another
        with torch.no_grad():
            seen = batch.observation = torch.rand(STEPS, COUNT, 1)
            batch.action, batch.log_probability, batch.mean = learner.actor.sample(seen)
            asymmetry.append(float((learner.actor(seen) + learner.actor(-seen)).abs().mean()))
        learner.learn(batch, torch.zeros(COUNT))
    assert asymmetry[-1] < 0.2 * asymmetry[0]


def test_unlikely_mirrored_actions_keep_the_loss_finite() -> None:
    """A step that makes actions of probability 0 likely, and they turned out badly."""
    learner = Learner(1, 1, 1, NETWORK, PPO, FELT)
    batch = one_sided_batch(learner)
    action = batch.action.flatten(0, 1)
    observation, never = batch.observation.flatten(0, 1), torch.full((len(action),), -500.0)
    felt, spread = torch.zeros_like(observation), learner.actor.log_std.detach()
    loss, _ = learner._policy_loss(
        *(observation, felt, felt, action, never, -torch.ones(len(action))),
        *(batch.mean.flatten(0, 1), spread),
    )
    assert float(loss.detach()) == pytest.approx(3.0)


def test_training_that_diverges_is_refused_and_leaves_the_networks_alone() -> None:
    learner = Learner(1, 1, 1, NETWORK, PPO, FELT)
    batch = one_sided_batch(learner)
    batch.reward[0, 0] = float("nan")
    with pytest.raises(Refusal, match="diverged"):
        learner.learn(batch, torch.zeros(COUNT))
    assert all(parameter.isfinite().all() for parameter in learner.parameters)


def test_the_learning_rate_follows_the_size_of_the_updates() -> None:
    learner = Learner(1, 1, 1, NETWORK, PPO, FELT)
    start = learner.rate
    learner._adapt_rate(10 * PPO.target_kl, 1.0)
    assert learner.rate < start
    for _ in range(50):
        learner._adapt_rate(0.0, 1.0)
    assert learner.rate == PPO.actor_rate[1]
    learner._adapt_rate(PPO.target_kl, 1.0)
    assert learner.rate == PPO.actor_rate[1]  # just right
    learner._adapt_rate(PPO.target_kl, 0.1)
    assert learner.rate < PPO.actor_rate[1]  # late in a run the same update is too large
    assert learner.actor_optimiser.param_groups[0]["lr"] == learner.rate


def test_noise_is_held_down_late_in_a_run() -> None:
    learner = Learner(1, 1, 1, NETWORK, PPO, FELT)
    batch = Batch.empty(STEPS, COUNT, 1, 1, 1)
    learner.learn(batch, torch.zeros(COUNT), late=1.0)
    assert learner.actor.log_std.exp().max() <= NETWORK.final_std + 1e-6


def test_it_learns_to_feel_what_only_the_critic_is_told() -> None:
    torch.manual_seed(0)
    learner = Learner(1, 2, 1, NETWORK, PPO, Felt(slice(1, 2), torch.zeros(1, 1), 0.0))
    batch = Batch.empty(STEPS, COUNT, 1, 2, 1)
    batch.observation[:] = torch.rand(STEPS, COUNT, 1)
    batch.privileged[..., 1:] = 1.0 - 2.0 * batch.observation
    for _ in range(100):
        learner.learn(batch, torch.zeros(COUNT))
    seen = torch.tensor([[0.1], [0.5], [0.9]])
    assert torch.allclose(learner.actor.feel(seen), 1.0 - 2.0 * seen, atol=0.1)
