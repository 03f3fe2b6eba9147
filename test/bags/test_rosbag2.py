"""Bags of another storage, through rosbag2_py. Where ROS 2 is not installed, a stand-in has its
place: these tests show what we ask of it, not that it does so."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import zstandard
from rosbags.interfaces import Qos as RosbagsQos
from rosbags.interfaces import (
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.mend import mend
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


def compressed(path: Path, storage: StoragePlugin, mode: CompressionMode) -> list[bytes]:
    """Writes a bag with zstd in it, as rosbag2 does; returns its messages."""
    writer = Writer(path, version=9, storage_plugin=storage)
    writer.set_compression(mode, CompressionFormat.ZSTD)
    data = [TEXT[:8] + bytes([65 + k % 26, 0]) for k in range(1500)]
    with writer:
        common = {"msgdef": "string data\n", "rihs01": "RIHS01_" + "0" * 64}
        chatter = writer.add_connection("/a", "std_msgs/msg/String", **common)
        for k, message in enumerate(data):
            writer.write(chatter, 1_000_000 + k * 10, message)
    return data


MODES = [CompressionMode.FILE, CompressionMode.MESSAGE]


@pytest.mark.parametrize("mode", [*MODES, CompressionMode.STORAGE])
def test_a_compressed_mcap_is_read_without_rosbag2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CompressionMode
) -> None:
    monkeypatch.setitem(sys.modules, "rosbag2_py", None)
    data = compressed(tmp_path / "run", StoragePlugin.MCAP, mode)
    bag = Bag(tmp_path / "run")
    assert (bag.complete, bag.problems) == (True, [])
    assert [(m.log_ns, m.data) for m in bag.messages()] == [
        (1_000_000 + k * 10, message) for k, message in enumerate(data)
    ]
    (file,) = (tmp_path / "run").glob("*.mcap*")
    assert len(list(Bag(file).messages())) == len(data)


@pytest.mark.parametrize("mode", MODES)
def test_a_compressed_sqlite3_bag_gets_the_reader_that_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CompressionMode
) -> None:
    monkeypatch.setitem(sys.modules, "rosbag2_py", rosbag2_standin)
    data = compressed(tmp_path / "run", StoragePlugin.SQLITE3, mode)
    assert [m.data for m in Bag(tmp_path / "run").messages()] == data


def test_a_file_that_rosbag2_unpacked_to_play_it_is_read_once(tmp_path: Path) -> None:
    data = compressed(tmp_path / "run", StoragePlugin.MCAP, CompressionMode.FILE)
    (packed,) = (tmp_path / "run").glob("*.mcap.zstd")
    with packed.open("rb") as stream, packed.with_suffix("").open("wb") as unpacked:
        zstandard.ZstdDecompressor().copy_stream(stream, unpacked)
    assert len(list(Bag(tmp_path / "run").messages())) == len(data)


def test_files_of_a_split_run_keep_their_order(tmp_path: Path) -> None:
    """The first was full and compressed, the second not: the recorder was killed."""
    first = compressed(tmp_path / "run", StoragePlugin.MCAP, CompressionMode.FILE)
    second = compressed(tmp_path / "later", StoragePlugin.MCAP, CompressionMode.STORAGE)
    (packed,) = (tmp_path / "run").glob("*.mcap.zstd")
    packed.rename(tmp_path / "run" / "run_2.mcap.zstd")
    (tmp_path / "later" / "later.mcap").rename(tmp_path / "run" / "run_10.mcap")
    assert [m.data for m in Bag(tmp_path / "run").messages()] == first + second
    assert mend(tmp_path / "run") == len(first + second)
    assert [m.data for m in Bag(tmp_path / "run").messages()] == first + second


def test_damaged_compression_is_said(tmp_path: Path) -> None:
    compressed(tmp_path / "run", StoragePlugin.MCAP, CompressionMode.FILE)
    (packed,) = (tmp_path / "run").glob("*.mcap.zstd")
    packed.write_bytes(b"not zstd" + packed.read_bytes()[8:])
    with pytest.raises(Refusal, match="cannot be unpacked"):
        Bag(tmp_path / "run")

    data = compressed(tmp_path / "each", StoragePlugin.MCAP, CompressionMode.MESSAGE)
    (file,) = (tmp_path / "each").glob("*.mcap")
    content = bytearray(file.read_bytes())
    at = content.index(b"\x28\xb5\x2f\xfd")
    content[at + 4] = 0xFF  # the frame's header: a bit that must be 0
    file.write_bytes(content)
    bag = Bag(tmp_path / "each")
    assert [m.data for m in bag.messages()] == data[1:]
    assert "damaged messages of /a are left out" in bag.problems[0]


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
