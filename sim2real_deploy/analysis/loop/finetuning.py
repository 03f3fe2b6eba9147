"""The loop's fine-tuning: on from the policy that walked, round the identified twin."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.training.config import CLOCK, TrainingConfig
from sim2real_deploy.training.gains import gains_for, write_with_gains

Told = Callable[[str], None]

TUNED, GAINS = "bundle", "gains"  # the policies that come out: trained, and with gains alone
FIRST_STD, LAST_STD = 0.4, 0.1  # noise of the actions: it knows how to walk already
CRITIC_FIRST = 15  # iterations in which only the critic learns: it starts from nothing
WIDTH = 0.6  # share of the ranges in force at the start
TRACKING = 1.5  # times the config's weights of the rewards for velocity: what a loop is for
ACTOR_RATE = (5.0e-5, 5.0e-4)


def fine_tuning(
    config: TrainingConfig, policy: Bundle, name: str, steps: int, known: str
) -> TrainingConfig:
    """A policy's training config, changed so that it goes on from the policy, at its own clock and
    with gains for the config's twin. `known` is the twin that the policy was trained on."""
    start = str(policy.folder.resolve())
    network = config.network.model_copy(
        update={"warm_start": start, "initial_std": FIRST_STD, "final_std": LAST_STD}
    )
    terms = [term for group in policy.contract.observations for term in group.terms]
    for clock in (term for term in terms if term.name == CLOCK):
        config = config.with_clock(float(str(clock.params["period"])))
    ppo = config.ppo.model_copy(update={"critic_first": CRITIC_FIRST, "actor_rate": ACTOR_RATE})
    width = config.randomisation.width.model_copy(update={"start": WIDTH})
    polish = config.polish
    tracked = {
        name: TRACKING * polish.rewards.get(name, weight)
        for name, weight in config.rewards.items()
        if name.startswith("track_")
    }
    polish = polish.model_copy(update={"begin": 0.0, "rewards": polish.rewards | tracked})
    return config.model_copy(
        update={
            "name": name,
            "steps": steps,
            "control": config.control.model_copy(
                update={"gain": dict(gains_for(policy.spec, known, config.twin))}
            ),
            "network": network,
            "ppo": ppo,
            "polish": polish,
            "randomisation": config.randomisation.model_copy(update={"width": width}),
            "judging": None,  # the gate judges what comes out
        }
    )


def fine_tune(
    place: Path,
    config: TrainingConfig,
    seed: int,
    minutes: float | None,
    policy: Bundle,
    made_from: Mapping[str, Any],
    told: Told,
) -> dict[str, Any]:
    """Train by `fine_tuning`'s config, and write both policies into the folder."""
    from sim2real_deploy.training.export import export
    from sim2real_deploy.training.trainer import Hooks, Run, train

    figures: dict[str, Any] = {}
    next_s = [0.0]

    def report(now: dict[str, Any]) -> None:
        figures.update(now)
        if now["seconds"] >= next_s[0]:
            next_s[0] = now["seconds"] + 60.0
            told(f"  {now['done']:.0%}, {now['steps']:,} steps, error {now['error_v']:.3f} m/s")

    checkpoint = train(Run(config, place / "run", seed, minutes), Hooks(report=report))
    if _was_stopped(figures, config.steps, minutes):
        raise KeyboardInterrupt  # the same command goes on from the checkpoint
    for name in (TUNED, GAINS):  # half written by an interruption
        shutil.rmtree(place / name, ignore_errors=True)
    contract = export(checkpoint, place / TUNED, made_from)
    write_with_gains(policy, config.control, config.name, place / GAINS, made_from)
    return {
        "gains": config.control.gain,
        "steps": contract.provenance["steps"],
        "seconds": figures.get("seconds", 0.0),
        "sha256": contract.sha256,
    }


def _was_stopped(last: Mapping[str, Any], steps: int, minutes: float | None) -> bool:
    """Training ends in good order on Ctrl-C, too: whether its last report is of that."""
    if not last:  # a run that was complete before
        return False
    in_time = minutes is None or last["session_seconds"] < 60 * minutes
    return in_time and bool(last["steps"] < steps)
