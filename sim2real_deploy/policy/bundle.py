"""A policy's folder, policy.yaml and policy.onnx: everything is checked before it may move a joint.

The network file is read once: the bytes that were hashed are the bytes that run.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy import record
from sim2real_deploy.policy.contract import Contract, bundle_folder
from sim2real_deploy.policy.policy import Policy
from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.robots.spec import FULL_TORQUE_RAD, MOST_KD, Joint

MAX_MODEL_BYTES = 200_000_000
# On another CPU the same network differs in the last bits; wrong weights differ by far more.
GOLDEN_TOLERANCE = 1e-4
LARGEST_SCALE = 1.25  # of the joint's range: policies with soft gains are trained with as much


@dataclass(frozen=True, slots=True)
class Bundle:
    """A checked policy on disk; each `open` returns a running one with its own state."""

    folder: Path
    contract: Contract = field(repr=False)
    spec: RobotSpec = field(repr=False)
    model: bytes = field(repr=False)

    def open(self) -> Policy:
        return Policy(self.contract, self.spec, self.model, str(self.folder))


def load_bundle(name: str | Path, spec: RobotSpec) -> Bundle:
    """Read it, check it against the robot and the network, and replay the golden steps."""
    folder = bundle_folder(name)
    source = folder / "policy.yaml"
    contract = configfile.load(source, Contract)
    check_against_robot(contract, spec, str(source))
    bundle = Bundle(folder, contract, spec, _read_model(folder / "policy.onnx", contract))
    policy = bundle.open()
    record.check(contract, policy.session.metadata, str(source))
    replay_golden(policy, str(source))
    return bundle


def load_own_bundle(name: str | Path) -> Bundle:
    """For the robot named in its contract."""
    contract = configfile.load(bundle_folder(name) / "policy.yaml", Contract)
    return load_bundle(name, load_robot(contract.robot))


def _read_model(path: Path, contract: Contract) -> bytes:
    try:
        if path.stat().st_size > MAX_MODEL_BYTES:
            raise Refusal(f"{path}: {path.stat().st_size} bytes is too large for a policy")
        model = path.read_bytes()
    except OSError as error:
        raise Refusal(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(model).hexdigest()
    if digest != contract.sha256:
        raise Refusal(
            f"{path}: sha256 is {digest[:12]}..., the contract says {contract.sha256[:12]}...: "
            "the file was changed or truncated after its export; export the policy again"
        )
    return model


def joint_order(contract: Contract, spec: RobotSpec, where: str) -> npt.NDArray[np.intp]:
    """The index in SDK order of each of the policy's joints, found by name."""
    named = [*contract.joints, *(held.joint for held in contract.held)]
    unknown = [name for name in named if name not in spec.joint_names]
    missing = [name for name in spec.joint_names if name not in named]
    if unknown or missing:
        parts = [f"unknown to the robot: {', '.join(unknown)}"] if unknown else []
        parts += [f"missing: {', '.join(missing)}"] if missing else []
        raise Refusal(f"{where}: joints: not those of {spec.name}: {'; '.join(parts)}")
    return np.array([spec.joint_names.index(name) for name in contract.joints])


def check_against_robot(contract: Contract, spec: RobotSpec, where: str) -> None:
    if contract.robot != spec.name:
        raise Refusal(f"{where}: robot: made for '{contract.robot}', this is '{spec.name}'")
    order = joint_order(contract, spec, where)
    ticks = spec.wire.rate_hz / contract.rate_hz
    if ticks < 1 or abs(ticks - round(ticks)) > 1e-9:
        raise Refusal(
            f"{where}: rate_hz: {contract.rate_hz:g} does not divide the wire's "
            f"{spec.wire.rate_hz:g} Hz"
        )
    for i, joint in enumerate(spec.joints[place] for place in order):
        _check_pose(joint, contract.default_position[i], f"{where}: default_position.{i}")
        _check_pose(joint, contract.action.offset[i], f"{where}: action.offset.{i}")
        _check_gains(joint, contract.kp[i], contract.kd[i], where, f".{i}")
        _check_scale(joint, contract.action.scale[i], f"{where}: action.scale.{i}")
        _check_wheel(joint, joint.name in contract.action.speeds, contract.kp[i], where)
    for i, held in enumerate(contract.held):
        joint = spec.joints[spec.joint_names.index(held.joint)]
        if joint.wheel and held.kp:
            raise Refusal(f"{where}: held.{i}.kp: {joint.name} is a wheel, which has no position")
        _check_pose(joint, held.position, f"{where}: held.{i}.position")
        _check_gains(joint, held.kp, held.kd, f"{where}: held.{i}", "")


def _check_pose(joint: Joint, position: float, where: str) -> None:
    low, high = joint.position
    if not low <= position <= high:
        raise Refusal(f"{where}: {joint.name} at {position} is outside [{low:.4g}, {high:.4g}]")


def _check_gains(joint: Joint, kp: float, kd: float, where: str, suffix: str) -> None:
    for key, gain, most in (
        ("kp", kp, joint.torque / FULL_TORQUE_RAD),
        ("kd", kd, MOST_KD),
    ):
        if gain > most:
            raise Refusal(f"{where}: {key}{suffix}: {joint.name} has {gain}, more than {most:.4g}")


def _check_scale(joint: Joint, scale: float, where: str) -> None:
    """Actions are of the order of 1: they must move the joint, and not far beyond its stops."""
    low, high = joint.position
    most = joint.velocity if joint.wheel else LARGEST_SCALE * (high - low)
    if not 0 < scale <= most:
        raise Refusal(f"{where}: {joint.name} has {scale}; allowed is above 0, up to {most:.4g}")


def _check_wheel(joint: Joint, by_speed: bool, kp: float, where: str) -> None:
    if joint.wheel != by_speed:
        fault = "is a wheel: list it" if joint.wheel else "is no wheel: do not list it"
        raise Refusal(f"{where}: action.speeds: {joint.name} {fault}")
    if joint.wheel and kp:
        raise Refusal(f"{where}: kp: {joint.name} is a wheel, driven by velocity: {kp} is not 0")


def replay_golden(policy: Policy, where: str) -> None:
    """Run the recorded steps from a zero network state; the actions must be reproduced."""
    policy.reset()
    buffers = policy.session.inputs
    for i, step in enumerate(policy.contract.golden):
        if step.inputs.keys() != buffers.keys():
            raise Refusal(f"{where}: golden.{i}.inputs: must be {sorted(buffers)}")
        for name, values in step.inputs.items():
            if len(values) != buffers[name].size:
                raise Refusal(
                    f"{where}: golden.{i}.inputs.{name}: {len(values)} values, "
                    f"the network takes {buffers[name].size}"
                )
            buffers[name][:] = values
        if len(step.action) != len(policy.session.action):
            raise Refusal(f"{where}: golden.{i}.action: {len(step.action)} values")
        policy.session.run()
        expected = np.asarray(step.action, np.float32)
        error = np.abs(policy.session.action - expected)
        if not np.all(error <= GOLDEN_TOLERANCE * (1.0 + np.abs(expected))):
            worst = int(np.nanargmax(np.where(np.isnan(error), np.inf, error)))
            raise Refusal(
                f"{where}: golden.{i}.action.{worst}: the network gives "
                f"{policy.session.action[worst]:.6g} where {expected[worst]:.6g} was recorded"
            )
    policy.reset()
