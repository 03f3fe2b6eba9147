"""Proximal policy optimisation for many environments on a few CPU cores.

The actor gets the robot's own observation; the critic also gets what only a simulator knows. Each
actor minibatch is doubled with its left-right mirror image, which halves what there is to learn.
Workers hold equal copies of the networks and average their gradients.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.config import NetworkConfig, Ppo

LOG_2PI = 1.8378770664093453
# Bound on the probability ratio of actions that turned out badly: a mirrored action can be so
# unlikely that a small step of the policy changes its probability by orders of magnitude.
LOG_MOST_RATIO = math.log(3.0)
# Weight of the actor's asymmetry. A mirrored action counts as if it had been as likely as the one
# it mirrors; late in a run, when the noise is small, that holds only for a symmetric actor.
SYMMETRY = 0.05
Mirror = Callable[[Tensor], Tensor]


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> nn.Sequential:
    sizes = [inputs, *hidden]
    layers: list[nn.Module] = []
    for width, following in pairwise(sizes):
        layers += [nn.Linear(width, following), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


@dataclass(frozen=True, slots=True)
class Felt:
    """What the actor learns to estimate, and how the estimates correct its observation."""

    told: slice  # where the true values are in the critic's input
    steering: Tensor  # estimates @ steering is added to the observation
    reach: float  # estimates are clipped to this for steering


class Actor(nn.Module):
    """A network for the mean action; its spread does not depend on the observation.

    A first network estimates from the observation what the robot cannot measure, such as the error
    of its velocity. It learns from the simulator's truth, not from rewards. The estimated velocity
    error shifts the command that the second network sees: that closes the loop on speed.
    """

    def __init__(self, observations: int, actions: int, network: NetworkConfig, felt: Felt):
        super().__init__()
        count = len(felt.steering)
        self._felt = felt  # from the config: not learnt, not in checkpoints
        self.feel = mlp(observations, network.feeling, count)
        self.act = mlp(observations + count, network.hidden, actions)
        last = list(self.act.parameters())[-2:]
        with torch.no_grad():  # small first actions: begin near the default pose
            last[0].mul_(0.1)
            last[1].zero_()
        self.log_std = nn.Parameter(torch.full((actions,), network.initial_std).log())

    def forward(self, observation: Tensor) -> Tensor:
        """The mean action."""
        return self.act_on(observation, self.feel(observation).detach())

    def act_on(self, observation: Tensor, felt: Tensor) -> Tensor:
        heeded = felt.clamp(-self._felt.reach, self._felt.reach)
        steered = observation + heeded @ self._felt.steering
        mean: Tensor = self.act(torch.cat([steered, felt], -1))
        return mean

    def sample(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """A sampled action, its log probability and the mean action."""
        mean: Tensor = self(observation)
        action = mean + self.log_std.exp() * torch.randn_like(mean)
        return action, log_probability(action, mean, self.log_std), mean


def log_probability(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    z = (action - mean) * (-log_std).exp()
    return -(0.5 * z * z + log_std + 0.5 * LOG_2PI).sum(-1)


@dataclass(slots=True)
class Batch:
    """What one worker collected: steps x environments."""

    observation: Tensor
    privileged: Tensor
    action: Tensor
    mean: Tensor
    log_probability: Tensor
    value: Tensor
    reward: Tensor
    ended: Tensor  # 1 where the episode ended in this step, by a fall or by time

    @classmethod
    def empty(
        cls, steps: int, count: int, observations: int, privileged: int, actions: int
    ) -> "Batch":
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(steps, count, *shape)

        return cls(
            zeros(observations),
            zeros(privileged),
            zeros(actions),
            zeros(actions),
            zeros(),
            zeros(),
            zeros(),
            zeros(),
        )


def advantages(batch: Batch, last_value: Tensor, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimation, backwards in time."""
    result = torch.zeros_like(batch.reward)
    following_value, running = last_value, torch.zeros_like(last_value)
    for step in range(len(batch.reward) - 1, -1, -1):
        going_on = 1.0 - batch.ended[step]
        surprise = batch.reward[step] + gamma * going_on * following_value - batch.value[step]
        running = surprise + gamma * lam * going_on * running
        result[step] = running
        following_value = batch.value[step]
    return result


class Learner:
    """The networks and how they learn from a batch."""

    def __init__(
        self,
        observations: int,
        privileged: int,
        actions: int,
        network: NetworkConfig,
        ppo: Ppo,
        felt: Felt,
        mirror_observation: Mirror | None = None,
        mirror_action: Mirror | None = None,
    ):
        self.ppo, self.network = ppo, network
        self.actor = Actor(observations, actions, network, felt)
        self.felt = felt
        self.critic = mlp(privileged, network.critic or network.hidden, 1)
        self.rate = min(ppo.critic_rate, ppo.actor_rate[1])
        self._by_rewards = [*self.actor.act.parameters(), self.actor.log_std]
        self._by_truth = [*self.critic.parameters(), *self.actor.feel.parameters()]
        self.actor_optimiser = torch.optim.Adam(self._by_rewards, self.rate, fused=True)
        self.critic_optimiser = torch.optim.Adam(self._by_truth, ppo.critic_rate, fused=True)
        self.mirror_observation = mirror_observation
        self.mirror_action = mirror_action
        self.parameters = [*self._by_rewards, *self._by_truth]

    def value(self, privileged: Tensor) -> Tensor:
        value: Tensor = self.critic(privileged).squeeze(-1)
        return value

    def learn(
        self, batch: Batch, last_value: Tensor, late: float = 0.0, critic_alone: bool = False
    ) -> dict[str, float]:
        """Several epochs over one batch. As `late` goes from 0 to 1, updates and entropy shrink."""
        ppo, anneal = self.ppo, 1.0 - 0.9 * late
        advantage = advantages(batch, last_value, ppo.gamma, ppo.lam)
        returns = (advantage + batch.value).flatten()
        advantage = ((advantage - advantage.mean()) / (advantage.std() + 1e-8)).flatten()
        observation = batch.observation.flatten(0, 1)
        felt, mirror_felt = self._felt_by(observation)
        privileged = batch.privileged.flatten(0, 1)
        action = batch.action.flatten(0, 1)
        mean = batch.mean.flatten(0, 1)
        old_log_std = self.actor.log_std.detach().clone()
        old = batch.log_probability.flatten()
        self.critic_optimiser.param_groups[0]["lr"] = ppo.critic_rate * anneal
        losses = torch.zeros(4)
        size = len(advantage) // ppo.minibatches
        for _ in range(ppo.epochs):
            order = torch.randperm(len(advantage))
            for start in range(0, size * ppo.minibatches, size):
                pick = order[start : start + size]
                policy_loss, kl = self._policy_loss(
                    observation[pick],
                    felt[pick],
                    mirror_felt[pick],
                    action[pick],
                    old[pick],
                    advantage[pick],
                    mean[pick],
                    old_log_std,
                )
                value_loss = (self.value(privileged[pick]) - returns[pick]).square().mean()
                truth = privileged[pick][:, self.felt.told]
                feeling_loss = (self.actor.feel(observation[pick]) - truth).square().sum(-1).mean()
                entropy = self.actor.log_std.sum()
                loss = policy_loss + value_loss + feeling_loss - anneal * ppo.entropy * entropy
                self.actor_optimiser.zero_grad(set_to_none=True)
                self.critic_optimiser.zero_grad(set_to_none=True)
                loss.backward()
                kl = self._average_gradients(kl)
                self._adapt_rate(kl, anneal)
                for learnt in (self._by_rewards, self._by_truth):
                    if not nn.utils.clip_grad_norm_(learnt, ppo.gradient_norm).isfinite():
                        raise Refusal(
                            "training diverged: a gradient is not finite. The last checkpoint is "
                            "kept; lower ppo.actor_rate or the largest reward weights"
                        )
                if not critic_alone:
                    self.actor_optimiser.step()
                self.critic_optimiser.step()
                parts = (policy_loss, value_loss, feeling_loss)
                losses += torch.tensor([*(part.item() for part in parts), kl])
        if late:
            self.actor.log_std.data.clamp_(max=self._most_log_std(late))
        policy_loss, value_loss, feeling_loss, kl = (
            losses / (ppo.epochs * ppo.minibatches)
        ).tolist()
        return {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "felt_error": math.sqrt(feeling_loss),
            "kl": kl,
            "rate": self.rate,
            "std": float(self.actor.log_std.detach().exp().mean()),
        }

    def _felt_by(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """The actor's estimates when it acted, and for the mirrored observation. They stay fixed
        for the batch, so that learning to estimate does not change the actions meanwhile."""
        with torch.no_grad():
            felt = self.actor.feel(observation)
            if self.mirror_observation is None:
                return felt, felt
            return felt, self.actor.feel(self.mirror_observation(observation))

    def _policy_loss(
        self,
        observation: Tensor,
        felt: Tensor,
        mirror_felt: Tensor,
        action: Tensor,
        old: Tensor,
        advantage: Tensor,
        old_mean: Tensor,
        old_log_std: Tensor,
    ) -> tuple[Tensor, float]:
        count = len(observation)
        if self.mirror_observation is not None and self.mirror_action is not None:
            observation = torch.cat([observation, self.mirror_observation(observation)])
            felt = torch.cat([felt, mirror_felt])
            action = torch.cat([action, self.mirror_action(action)])
            old, advantage = old.repeat(2), advantage.repeat(2)
        mean = self.actor.act_on(observation, felt)
        log_std = self.actor.log_std
        ratio = (log_probability(action, mean, log_std) - old).clamp(max=LOG_MOST_RATIO).exp()
        clipped = ratio.clamp(1 - self.ppo.clip, 1 + self.ppo.clip)
        loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        if len(mean) > count:
            loss = loss + SYMMETRY * self._asymmetry(mean[:count], mean[count:])
        with torch.no_grad():
            variance = (2 * log_std).exp()
            moved = (old_mean - mean[:count]).square()
            spread = (2 * old_log_std).exp() + moved
            kl = (log_std - old_log_std + spread / (2 * variance) - 0.5).sum(-1).mean()
        return loss, float(kl)

    def _asymmetry(self, mean: Tensor, mirror_mean: Tensor) -> Tensor:
        """KL divergence of the actions for mirrored observations from the mirrored actions."""
        assert self.mirror_action is not None
        moved = (
            mirror_mean - self.mirror_action(mean).detach()
        ) / self.actor.log_std.detach().exp()
        return 0.5 * moved.square().sum(-1).mean()

    def _average_gradients(self, kl: float) -> float:
        if not dist.is_initialized():
            return kl
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        flat = torch.cat([g.flatten() for g in gradients] + [torch.tensor([kl])])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        start = 0
        for gradient in gradients:
            end = start + gradient.numel()
            gradient.copy_(flat[start:end].view_as(gradient))
            start = end
        return float(flat[-1])

    def _most_log_std(self, late: float) -> float:
        """The bound on action noise: the policy has to learn to do without it by the end."""
        first, last = math.log(self.network.initial_std), math.log(self.network.final_std)
        return first + late * (last - first)

    def _adapt_rate(self, kl: float, anneal: float) -> None:
        """Adapt the learning rate so that the KL divergence of an update stays near its target."""
        (least, most), target = self.ppo.actor_rate, self.ppo.target_kl * anneal
        if kl > 2 * target:
            self.rate = max(least * anneal, self.rate / 1.5)
        elif kl < target / 2:
            self.rate = min(most, self.rate * 1.5)
        self.actor_optimiser.param_groups[0]["lr"] = self.rate
