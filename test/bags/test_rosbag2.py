"""Bags of another storage, through rosbag2_py. Where ROS 2 is not installed, a stand-in has its
place: these tests show what we ask of it, not that it does so."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from rosbags.interfaces import Qos as RosbagsQos
from rosbags.interfaces import (
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer

from sim2real_deploy.bags import Bag
from sim2real_deploy.errors import Refusal
from support import rosbag2_standin

TEXT = b"\x00\x01\x00\x00\x02\x00\x00\x00a\x00"
NEVER = QosTime(0, 0)
BEST_EFFORT = RosbagsQos(
    QosHistory.KEEP_LAST,
    5,
    QosReliability.BEST_EFFORT,
    QosDurability.VOLATILE,
    NEVER,
    NEVER,
    QosLiveliness.AUTOMATIC,
    NEVER,
    False,
)


@pytest.fixture
def rosbag2(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("rosbag2_py") is None:
        monkeypatch.setitem(sys.modules, "rosbag2_py", rosbag2_standin)


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    """As `ros2 bag record` of Humble leaves one: sqlite3."""
    with Writer(tmp_path / "run", version=8, storage_plugin=StoragePlugin.SQLITE3) as writer:
        common = {"msgdef": "string data\n", "rihs01": "RIHS01_" + "0" * 64}
        for name in ("/a", "/b"):
            chatter = writer.add_connection(
                name, "std_msgs/msg/String", offered_qos_profiles=[BEST_EFFORT], **common
            )
            for k in range(1500):
                writer.write(chatter, 1_000_000 + k * 10, TEXT)
    return tmp_path / "run"


def test_a_sqlite3_bag_is_read_whole(bag: Path, rosbag2: None) -> None:
    opened = Bag(bag)
    messages = list(opened.messages())
    assert len(messages) == 3000
    assert [m.log_ns for m in messages] == sorted(m.log_ns for m in messages)
    assert {m.data for m in messages} == {TEXT}
    topic = opened.topics["/a"]
    assert (topic.type, topic.definition.strip()) == ("std_msgs/msg/String", "string data")
    assert topic.qos.reliability == "best_effort"
    assert opened.recorded_span() == (1_000_000, 1_000_000 + 14_990 + 1)


def test_some_topics_and_some_time_of_it(bag: Path, rosbag2: None) -> None:
    opened = Bag(bag)
    part = opened.within((1_005_000, 1_006_000))
    messages = list(part.messages([opened.topics["/b"]]))
    assert [m.log_ns for m in messages] == list(range(1_005_000, 1_006_000, 10))
    assert {m.topic for m in messages} == {"/b"}


def test_a_compressed_bag_gets_the_reader_that_unpacks(
    bag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = bag / "metadata.yaml"
    said = yaml.safe_load(metadata.read_text())
    information = said["rosbag2_bagfile_information"]
    information |= {"compression_format": "zstd", "compression_mode": "FILE"}
    metadata.write_text(yaml.safe_dump(said))
    (bag / "run.db3").rename(bag / "run.db3.zstd")
    monkeypatch.setitem(sys.modules, "rosbag2_py", rosbag2_standin)
    opened = []
    monkeypatch.setattr(
        rosbag2_standin.SequentialCompressionReader,
        "open",
        lambda _self, storage, _: opened.append(storage.storage_id),
    )
    monkeypatch.setattr(rosbag2_standin.SequentialReader, "has_next", lambda _self: False)
    assert list(Bag(bag).messages()) == []
    assert opened == ["sqlite3"]


def test_without_rosbag2_py_it_says_how_to_convert(
    bag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rosbag2_py", None)
    with pytest.raises(Refusal, match=r"stored as sqlite3.*not installed here.*ros2 bag convert"):
        Bag(bag)


@pytest.mark.parametrize("text", ["", "a: [", "rosbag2_bagfile_information: {version: 5}"])
def test_broken_metadata_is_refused_in_words(bag: Path, rosbag2: None, text: str) -> None:
    (bag / "metadata.yaml").write_text(text)
    with pytest.raises(Refusal, match="ros2 bag reindex"):
        Bag(bag)


def test_what_rosbag2_cannot_open_is_refused_in_its_words(
    bag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rosbag2_py", rosbag2_standin)

    def refuse(*_: object) -> None:
        raise RuntimeError("No storage could be initialized")

    monkeypatch.setattr(rosbag2_standin.SequentialReader, "open", refuse)
    with pytest.raises(Refusal, match="rosbag2 cannot open it: No storage"):
        list(Bag(bag).messages())
