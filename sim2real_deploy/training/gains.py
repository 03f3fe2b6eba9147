"""Gains for a robot whose motors give more or less torque than those that a policy knows.

A motor at 0.8 of its strength with gains divided by 0.8 pulls as the policy expects, as far as its
torque reaches. No training is needed for that, only the strength that was identified.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.policy.record import KEY, embed
from sim2real_deploy.policy.save import save_bundle
from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.training.config import Control
from sim2real_deploy.twin.files import load_imperfections
from sim2real_deploy.twin.per_joint import per_joint

MOST = 1.5  # times more or less: beyond it, motors are to be mended


def gains_for(robot: RobotSpec, known: str, found: str) -> dict[str, float]:
    """Times the gains, by joint: of a robot that is the twin `found`, for a policy that was trained
    on the twin `known`."""
    here, there = (
        load_imperfections(t, robot.name).motors.strengths(robot) for t in (known, found)
    )
    times = np.clip(here / np.maximum(there, 1e-6), 1 / MOST, MOST).round(4)
    return dict(zip(robot.joint_names, times.tolist(), strict=True))


def write_with_gains(
    policy: Bundle, control: Control, name: str, folder: Path, made_from: Mapping[str, Any]
) -> None:
    """The same network as a bundle of its own, with the gains that `control` has for its robot."""
    old, robot = policy.contract, policy.spec
    gain = per_joint(control.gain, robot, "control.gain", otherwise=1.0)
    times = dict(zip(robot.joint_names, gain.tolist(), strict=True))
    changed = {
        "name": name,
        "kp": tuple(round(times[joint] * control.kp, 4) for joint in old.joints),
        "kd": tuple(round(times[joint] * control.kd, 4) for joint in old.joints),
        "provenance": {**old.provenance, **made_from},
    }
    graph = onnx.load_from_string(policy.model)
    kept = [entry for entry in graph.metadata_props if entry.key != KEY]
    del graph.metadata_props[:]
    graph.metadata_props.extend(kept)
    draft = old.model_copy(update=changed)
    model = embed(bytes(graph.SerializeToString()), draft)
    sha256 = hashlib.sha256(model).hexdigest()
    save_bundle(folder, draft.model_copy(update={"sha256": sha256}), model)
