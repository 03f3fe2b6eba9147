"""The SROS2 policy: whole, and no wider than the graph."""

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sim2real_deploy import topics
from sim2real_deploy.bringup.access import accesses, policy_xml


def test_each_velocity_and_each_stop_has_one_owner() -> None:
    everyone = accesses("go2").values()
    for topic in (topics.VELOCITY, topics.VELOCITY_TELEOP, topics.VELOCITY_PAGE, topics.SAFETY):
        assert sum(topic in access.publishes for access in everyone) == 1, topic
    for service in (topics.ESTOP, topics.STOP, topics.RESET):
        assert sum(service in access.serves for access in everyone) == 1


def test_every_topic_of_the_package_is_somebodys() -> None:
    published = {name for access in accesses("go2").values() for name in access.publishes}
    names = {
        value
        for key, value in vars(topics).items()
        if key.isupper() and isinstance(value, str) and value not in (topics.TRUTH,)
    }
    wire_and_services = {topics.LOW_STATE, topics.LOW_CMD, topics.ESTOP, topics.STOP, topics.RESET}
    assert names - wire_and_services <= published


def test_the_policy_is_xml_with_an_enclave_a_node() -> None:
    root = ElementTree.fromstring(policy_xml("go2", "robot1"))
    paths = [enclave.get("path") for enclave in root.iter("enclave")]
    assert paths == [f"/robot1/{node}" for node in accesses("go2")]
    assert root.find(".//profile[@node='teleop']/topics[@publish='ALLOW']/topic").text == (  # type: ignore[union-attr]
        topics.VELOCITY_TELEOP
    )


def test_the_keystore_tools_take_it(tmp_path: Path) -> None:
    if shutil.which("ros2") is None:
        pytest.skip("no ros2 command here: SROS2's keystore tools are not installed")
    policy = tmp_path / "policy.xml"
    policy.write_text(policy_xml("go2"))
    keystore = str(tmp_path / "keystore")
    for command in (
        ["create_keystore", keystore],
        ["create_enclave", keystore, "/teleop"],
        ["create_permission", keystore, "/teleop", str(policy)],
    ):
        subprocess.run(["ros2", "security", *command], check=True, timeout=60)
    assert "teleop/cmd_vel" in next(Path(keystore).rglob("permissions.xml")).read_text()
