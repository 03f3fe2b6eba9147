"""Bundles broken on purpose: every one is refused, by the field that is wrong, and nothing runs."""

import hashlib
import os
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from sim2real_deploy import configfile
from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy import record
from sim2real_deploy.policy.bundle import load_bundle
from sim2real_deploy.policy.contract import Contract
from sim2real_deploy.robots import load_robot
from support.policy_samples import PLAIN_TERMS, contract_for, network, write_bundle

GO2 = load_robot("go2")
JOINTS = GO2.joint_count
OBSERVATION = 9 + 3 * JOINTS
OBSERVED = [{"input": "obs", "terms": PLAIN_TERMS}]


class Broken:
    """A sound bundle, as an exporter writes it, open to damage."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        plain = network(OBSERVATION, JOINTS)
        content = contract_for(GO2, plain, observations=deepcopy(OBSERVED))
        model = record.embed(plain, configfile.parse(content, Contract, "sample"))
        self.content = deepcopy(contract_for(GO2, model, observations=OBSERVED))
        self.model = model
        self.text: str | None = None  # instead of the content

    def seal(self, model: bytes) -> None:
        """Another network, with the hash to match: only its content can give it away."""
        self.model = model
        self.content["sha256"] = hashlib.sha256(model).hexdigest()

    def write(self) -> Path:
        write_bundle(self.folder, self.content, self.model)
        if self.text is not None:
            (self.folder / "policy.yaml").write_text(self.text)
        return self.folder


def swap(values: list[Any], i: int, j: int) -> None:
    values[i], values[j] = values[j], values[i]


def setting(*path: str | int, to: Any) -> Callable[[Broken], None]:
    def damage(broken: Broken) -> None:
        place: Any = broken.content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return damage


def missing(*path: str | int) -> Callable[[Broken], None]:
    def damage(broken: Broken) -> None:
        place: Any = broken.content
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return damage


def swapped(*path: str | int, places: tuple[int, int]) -> Callable[[Broken], None]:
    def damage(broken: Broken) -> None:
        place: Any = broken.content
        for key in path:
            place = place[key]
        swap(place, *places)

    return damage


def yaml_text(text: str) -> Callable[[Broken], None]:
    def damage(broken: Broken) -> None:
        broken.text = text

    return damage


def other_network(**options: Any) -> Callable[[Broken], None]:
    def damage(broken: Broken) -> None:
        broken.seal(network(options.pop("inputs", OBSERVATION), JOINTS, **options))

    return damage


def not_a_number_weights() -> np.ndarray:
    weights = np.zeros((OBSERVATION, JOINTS))
    weights[3, 4] = np.nan
    return weights


def weights_elsewhere(location: str) -> Callable[[Broken], None]:
    """A network that wants its weights read from a file of the attacker's choice."""

    def damage(broken: Broken) -> None:
        model = onnx.load_model_from_string(broken.model)
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location
        broken.seal(model.SerializeToString())

    return damage


def cut_short(broken: Broken) -> None:
    broken.model = broken.model[: len(broken.model) // 2]


def cut_short_and_sealed(broken: Broken) -> None:
    broken.seal(broken.model[: len(broken.model) // 2])


def one_bit(broken: Broken) -> None:
    model = bytearray(broken.model)
    model[len(model) // 2] ^= 1
    broken.model = bytes(model)


def double_precision(broken: Broken) -> None:
    weights = np.zeros((OBSERVATION, JOINTS))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "W"], ["actions"])],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.DOUBLE, [1, OBSERVATION])],
        [helper.make_tensor_value_info("actions", TensorProto.DOUBLE, [1, JOINTS])],
        [numpy_helper.from_array(weights, "W")],
    )
    opset = [helper.make_opsetid("", 17)]
    broken.seal(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def twice_the_same_key(broken: Broken) -> None:
    broken.text = yaml.safe_dump({"format": 1}) + "kp: [1.0]\nkp: [2.0]\n"


BOMB = "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n"
MIRRORED = [
    {"R": name.replace("R_", "L_", 1), "L": name.replace("L_", "R_", 1)}[name[1]]
    for name in reversed(GO2.joint_names)
]
STAND = [float(value) for value in GO2.stand_pose[::-1]]

# What is done to the bundle, and the field (or the file) that the refusal must name.
DAMAGES: dict[str, tuple[Callable[[Broken], None], str]] = {
    "two joints swapped": (swapped("joints", places=(0, 3)), r"joints\.0"),
    "left and right exchanged": (setting("joints", to=MIRRORED), r"joints\.0"),
    "joints in the motors' order": (
        setting("joints", to=list(GO2.joint_names)),
        r"default_position\.0: FR_hip_joint",
    ),
    "a joint of another robot": (setting("joints", 0, to="left_knee_joint"), "joints: not those"),
    "a joint twice": (setting("joints", 0, to="FR_hip_joint"), "joints"),
    "a joint lost": (missing("joints", 0), "default_position"),
    "observations in another order": (
        swapped("observations", 0, "terms", places=(0, 2)),
        r"observations\.0\.terms\.0",
    ),
    "an observation's scale missing": (
        missing("observations", 0, "terms", 0, "scale"),
        r"observations\.0\.terms\.0\.scale",
    ),
    "an observation's scale wrong": (
        setting("observations", 0, "terms", 4, "scale", to=0.5),
        r"observations\.0\.terms\.4\.scale",
    ),
    "an observation unknown": (
        setting("observations", 0, "terms", 0, "name", to="lidar"),
        r"observations\.0\.terms\.0\.name",
    ),
    "an observation missing": (missing("observations", 0, "terms", 5), r"observations\.0"),
    "history longer than the network": (
        setting("observations", 0, "terms", 3, "history", to=5),
        r"observations\.0",
    ),
    "history endless": (
        setting("observations", 0, "terms", 3, "history", to=10**9),
        r"observations\.0\.terms\.3\.history",
    ),
    "clip upside down": (
        setting("observations", 0, "terms", 0, "clip", to=[1.0, -1.0]),
        r"observations\.0\.terms\.0\.clip",
    ),
    "action scale missing": (missing("action", "scale"), r"action\.scale"),
    "action scale zero": (setting("action", "scale", 2, to=0.0), r"action\.scale\.2"),
    "action scale ten times": (setting("action", "scale", 0, to=2.5), r"action\.scale\.0"),
    "action clip upside down": (setting("action", "clip", to=[[1, -1]] * JOINTS), r"action\.clip"),
    "action output unknown": (setting("action", "output", to="torques"), r"action\.output"),
    "kp negative": (setting("kp", 0, to=-25.0), "kp"),
    "kp with a slipped point": (setting("kp", 0, to=2500.0), r"kp\.0"),
    "kp slightly other": (setting("kp", 7, to=26.0), r"kp\.7"),
    "kd not a number": (setting("kd", 0, to=float("nan")), r"kd\.0"),
    "pose outside the stops": (setting("default_position", 0, to=3.0), r"default_position\.0"),
    "pose of two joints swapped": (
        setting("default_position", to=[STAND[0], STAND[2], STAND[1], *STAND[3:]]),
        r"default_position\.1",
    ),
    "rate that the wire cannot keep": (setting("rate_hz", to=48.0), "rate_hz"),
    "rate halved": (setting("rate_hz", to=25.0), "rate_hz"),
    "another robot": (setting("robot", to="g1"), "robot"),
    "a path for a robot": (setting("robot", to="../../tmp/go2.yaml"), "robot"),
    "a path for a name": (setting("name", to="../../etc/cron.d/x"), "name"),
    "commands that cannot be zero": (
        setting("command_ranges", "vx", to=[0.5, 1.0]),
        r"command_ranges: vx",
    ),
    "commands upside down": (setting("command_ranges", "wz", to=[1, -1]), r"command_ranges: wz"),
    "an unknown key": (setting("torque_limit", to=1.0), "torque_limit"),
    "a golden step changed": (setting("golden", 1, "action", 2, to=9.0), r"golden\.1\.action\.2"),
    "golden steps gone": (setting("golden", to=[]), "golden"),
    "the network cut short": (cut_short, "sha256"),
    "the network cut short, hash and all": (cut_short_and_sealed, r"not a network"),
    "one bit of the network": (one_bit, "sha256"),
    "weights that are not numbers": (
        other_network(weights=not_a_number_weights()),
        r"golden\.0\.action",
    ),
    "another network": (other_network(weights=np.ones((OBSERVATION, JOINTS))), r"golden\.0"),
    "a network of another size": (other_network(inputs=OBSERVATION + 3), r"observations\.0"),
    "a network with a state nobody feeds": (other_network(recurrent=True), "observations"),
    "a network in double precision": (double_precision, r"observations\.0"),
    "weights in a file outside": (weights_elsewhere("/etc/passwd"), "weights must be inside"),
    "weights up the tree": (weights_elsewhere("../../x.bin"), "weights must be inside"),
    "a YAML bomb": (yaml_text(BOMB), "policy.yaml: .*aliases"),
    "a key twice": (twice_the_same_key, "'kp' is given twice"),
    "not YAML": (yaml_text("kp: [1, 2"), "policy.yaml: not a YAML file"),
    "no mapping": (yaml_text("- 1"), "policy.yaml: a mapping"),
    "far too long": (yaml_text("# " + "x" * 5_000_000), "policy.yaml: .*bytes"),
}


def test_there_are_enough_damages() -> None:
    assert len(DAMAGES) >= 30


def test_the_bundle_is_sound_before_it_is_broken(tmp_path: Path) -> None:
    assert load_bundle(Broken(tmp_path / "policy").write(), GO2).contract.name == "sample"


@pytest.mark.parametrize("what", DAMAGES)
def test_a_broken_bundle_is_refused_by_its_field(what: str, tmp_path: Path) -> None:
    damage, named = DAMAGES[what]
    broken = Broken(tmp_path / "policy")
    damage(broken)
    with pytest.raises(Refusal, match=named):
        load_bundle(broken.write(), GO2)


@pytest.mark.parametrize(
    "tag", ["object/apply:os.system", "object/new:os.system", "name:os.system"]
)
def test_code_in_a_tag_is_refused_and_not_run(tag: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    broken = Broken(tmp_path / "policy")
    broken.text = f"provenance: !!python/{tag} ['touch {marker}']\n"
    with pytest.raises(Refusal, match=r"python/" + tag):
        load_bundle(broken.write(), GO2)
    assert not marker.exists()


def test_a_network_behind_a_link_is_the_one_that_is_hashed(tmp_path: Path) -> None:
    broken = Broken(tmp_path / "policy")
    folder = broken.write()
    elsewhere = tmp_path / "other.onnx"
    elsewhere.write_bytes(network(OBSERVATION, JOINTS, weights=np.ones((OBSERVATION, JOINTS))))
    os.remove(folder / "policy.onnx")
    (folder / "policy.onnx").symlink_to(elsewhere)
    with pytest.raises(Refusal, match="sha256"):
        load_bundle(folder, GO2)
