"""Bags on disk: written by us, read by us and by others, whole, torn, foreign or empty."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as RosbagsWriter
from sensor_msgs.msg import BatteryState, JointState

from sim2real_deploy.bags import Bag, BagWriter, Message, Topic, definitions
from sim2real_deploy.bags.mend import mend
from sim2real_deploy.errors import Refusal
from sim2real_deploy.wire.messages import FAMILIES
from support.bag_samples import LATCHED, STATE, sample
from support.places import DATA, TEST

GOLDEN = DATA / "wire/golden_messages.json"
ZSTD_FRAME = b"\x28\xb5\x2f\xfd"


def write_bag(path: Path, count: int = 1000, per_batch: int = 100, **options: int) -> list[Message]:
    writer = BagWriter(
        path, {"robot": "go2", "stage": "tether"}, {"policy.onnx": b"net"}, **options
    )
    writer.add_topic(STATE)
    messages = [sample(number) for number in range(count)]
    for start in range(0, count, per_batch):
        batch = messages[start : start + per_batch]
        writer.write(batch[::-1])  # the writer puts a batch in order
    writer.close()
    return messages


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    written = write_bag(tmp_path / "run")
    bag = Bag(tmp_path / "run")
    assert list(bag.messages()) == written
    assert bag.complete
    assert bag.problems == []
    assert bag.topics == {STATE.name: Topic(STATE.name, STATE.type, STATE.definition, STATE.qos)}
    assert bag.information == {"robot": "go2", "stage": "tether"}
    assert bag.attachments == {"policy.onnx": b"net"}


def test_the_bag_opens_with_rosbags_and_follows_rosbag2(tmp_path: Path) -> None:
    written = write_bag(tmp_path / "run", max_file_bytes=2000)
    with AnyReader([tmp_path / "run"]) as reader:
        read = [(stamp, bytes(data)) for _, stamp, data in reader.messages()]
        assert [c.msgtype for c in reader.connections] == ["unitree_go/msg/LowState"]
    assert read == [(message.log_ns, message.data) for message in written]
    content = yaml.safe_load((tmp_path / "run/metadata.yaml").read_text())
    information = content["rosbag2_bagfile_information"]
    assert information["version"] == RosbagsWriter.VERSION_LATEST
    assert information["message_count"] == 1000
    assert information["duration"]["nanoseconds"] == 999 * 2_000_000
    assert information["custom_data"]["robot"] == "go2"
    assert len(information["files"]) > 2
    assert sum(file["message_count"] for file in information["files"]) == 1000


@pytest.mark.parametrize(
    ("distribution", "version"), [("humble", 5), ("iron", 5), ("jazzy", 9), ("lyrical", 9)]
)
def test_the_metadata_is_of_the_form_that_the_distribution_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str, version: int
) -> None:
    """Up to Iron: version 5 to 8, the QoS a string with rmw's numbers in it."""
    monkeypatch.setenv("ROS_DISTRO", distribution)
    written = write_bag(tmp_path / "run", 10)
    content = yaml.safe_load((tmp_path / "run/metadata.yaml").read_text())
    information = content["rosbag2_bagfile_information"]
    assert (information["version"], information["ros_distro"]) == (version, distribution)
    (topic,) = information["topics_with_message_count"]
    qos = topic["topic_metadata"]["offered_qos_profiles"]
    assert isinstance(qos, str) == (version == 5)
    (offered,) = yaml.safe_load(qos) if version == 5 else qos
    numbers = {"reliability": 2, "durability": 2, "history": 1, "liveliness": 1}
    words = {"reliability": "best_effort", "durability": "volatile", "history": "keep_last",
             "liveliness": "automatic"}  # fmt: skip
    assert {name: offered[name] for name in words} == (numbers if version == 5 else words)
    with AnyReader([tmp_path / "run"]) as reader:
        assert [bytes(data) for _, _, data in reader.messages()] == [m.data for m in written]
    assert Bag(tmp_path / "run").topics[STATE.name].qos == STATE.qos


@pytest.mark.parametrize("family", ["go", "hg"])
@pytest.mark.parametrize("message", ["state", "command"])
def test_mcaps_own_decoder_reads_the_vendors_messages(
    tmp_path: Path, family: str, message: str
) -> None:
    layout = getattr(FAMILIES[family], message)
    golden = json.loads(GOLDEN.read_text())["messages"][layout.type_name]
    topic = Topic("/wire/x", *definitions.of_wire(layout))
    writer = BagWriter(tmp_path / "run", {})
    writer.add_topic(topic)
    hexes = [next(v for v in g.values() if isinstance(v, str) and len(v) > 100) for g in golden]
    writer.write([Message(i, topic.name, i, i, bytes.fromhex(h)) for i, h in enumerate(hexes)])
    writer.close()
    with (tmp_path / "run/run_0.mcap").open("rb") as stream:
        reader = make_reader(stream, decoder_factories=[DecoderFactory()])
        decoded = [item.decoded_message for item in reader.iter_decoded_messages()]
    assert len(decoded) == len(golden)
    for value, expected in zip(decoded, golden, strict=True):
        assert _plain(value) == expected["fields"]


def _plain(value: object) -> object:
    if hasattr(value, "__slots__"):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, (list, tuple, bytes)):
        return [_plain(item) for item in value]
    return value


@pytest.mark.parametrize("kind", [JointState, BatteryState])
def test_a_ros_class_is_described_as_ros_describes_it(kind: type) -> None:
    from rosbags.typesys import Stores, get_typestore

    name, text = definitions.of_class(kind)
    store = get_typestore(Stores.ROS2_KILTED)
    assert name == f"sensor_msgs/msg/{kind.__name__}"
    from rosbags.typesys import get_types_from_msg

    theirs = store.fielddefs[name][1]
    ours = get_types_from_msg(text, name)[name][1]
    assert ours == theirs


def test_a_torn_file_is_read_up_to_the_tear(tmp_path: Path) -> None:
    written = write_bag(tmp_path / "run", count=400, per_batch=40)
    whole = (tmp_path / "run/run_0.mcap").read_bytes()
    second_chunk = whole.index(ZSTD_FRAME, whole.index(ZSTD_FRAME) + 1)
    pick = random.Random(1)
    torn = tmp_path / "torn.mcap"
    for cut in [9, 40, *(pick.randrange(second_chunk, len(whole) - 1) for _ in range(30))]:
        torn.write_bytes(whole[:cut])
        if cut < 100:
            with pytest.raises(Refusal, match="holds no messages"):
                Bag(torn)
            continue
        bag = Bag(torn)
        read = list(bag.messages())
        assert read
        assert read == written[: len(read)]
        assert bag.complete or "ends in the middle" in bag.problems[0]


def test_a_damaged_chunk_is_left_out_and_named(tmp_path: Path) -> None:
    written = write_bag(tmp_path / "run", count=300, per_batch=100)
    path = tmp_path / "run/run_0.mcap"
    content = bytearray(path.read_bytes())
    frame = content.index(ZSTD_FRAME, content.index(ZSTD_FRAME) + 1)
    content[frame + 40] ^= 0xFF
    path.write_bytes(content)
    bag = Bag(path)
    assert list(bag.messages()) == written[:100] + written[200:]
    assert len(bag.problems) == 1
    assert "is damaged and left out" in bag.problems[0]


def test_a_bag_without_metadata_yaml_opens(tmp_path: Path) -> None:
    written = write_bag(tmp_path / "run")
    (tmp_path / "run/metadata.yaml").unlink()
    assert list(Bag(tmp_path / "run").messages()) == written


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda p: None, "no such bag"),
        (lambda p: p.mkdir(), "not a bag"),
        (lambda p: p.write_text("hello"), "neither a bag directory nor"),
        (lambda p: (p.mkdir(), (p / "a.mcap").touch()), "is empty"),
        (lambda p: (p.mkdir(), (p / "a.mcap").write_bytes(b"x" * 100)), "not an MCAP file"),
        (lambda p: (p.mkdir(), (p / "a.db3").touch()), "metadata.yaml is missing"),
        (lambda p: BagWriter(p, {}).close(), "holds no messages"),
    ],
)
def test_what_is_no_bag_is_refused_in_words(tmp_path: Path, prepare, words: str) -> None:
    prepare(tmp_path / "run")
    with pytest.raises(Refusal, match=words):
        Bag(tmp_path / "run")


def test_a_foreign_bag_is_told_by_its_topics(tmp_path: Path) -> None:
    with RosbagsWriter(tmp_path / "foreign", version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        connection = bag.add_connection(
            "/chatter", "std_msgs/msg/String", msgdef="string data\n", rihs01="RIHS01_" + "0" * 64
        )
        bag.write(connection, 1, b"\x00\x01\x00\x00\x02\x00\x00\x00a\x00")
    bag = Bag(tmp_path / "foreign")
    with pytest.raises(Refusal, match=r"has no topic 'wire/lowstate'.*/chatter"):
        bag.require("wire/lowstate")


def test_two_robots_in_one_bag_are_told_apart(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "run", {})
    for name in ("/a/mode", "/b/mode"):
        writer.add_topic(Topic(name, LATCHED.type, LATCHED.definition))
        writer.write([Message(1, name, 1, 1, b"")])
    writer.close()
    bag = Bag(tmp_path / "run")
    assert bag.find("a/mode") == bag.topics["/a/mode"]
    with pytest.raises(Refusal, match="more than one robot's 'mode'"):
        bag.find("mode")


def test_a_bag_is_never_overwritten(tmp_path: Path) -> None:
    write_bag(tmp_path / "run")
    with pytest.raises(Refusal, match="never overwritten"):
        BagWriter(tmp_path / "run", {})


CRASHING = """
import sys, time
from pathlib import Path
from sim2real_deploy.bags import Message
from sim2real_deploy.bags.recording import RunRecorder, Storage
from support.bag_samples import LATCHED, STATE, sample
recording = RunRecorder(Storage(Path(sys.argv[1]), min_free_bytes=0), "crash", {"robot": "go2"})
recording.add_topic(STATE)
number = 0
while True:
    for _ in range(10):
        recording.put(sample(number)._replace(log_ns=time.time_ns()))
        number += 1
    time.sleep(0.02)
"""


KILLS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))]


@pytest.mark.parametrize("seed", KILLS)
def test_after_sigkill_at_most_the_last_second_is_gone(tmp_path: Path, seed: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", CRASHING, str(tmp_path)], cwd=TEST)
    while not list(tmp_path.glob("*/metadata.yaml")):
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(random.Random(seed).uniform(0.5, 2.0))
    process.kill()
    killed_ns = time.time_ns()
    process.wait()
    (run,) = tmp_path.iterdir()
    bag = Bag(run)
    read = list(bag.messages())
    assert [message.sequence for message in read] == list(range(len(read)))
    assert killed_ns - read[-1].log_ns < 1_000_000_000
    assert not bag.complete


def test_a_mended_bag_opens_everywhere_and_lost_nothing(tmp_path: Path) -> None:
    write_bag(tmp_path / "run", count=400, per_batch=40)
    path = tmp_path / "run/run_0.mcap"
    path.write_bytes(path.read_bytes()[:-3000])
    (tmp_path / "run/PINNED").write_text("a fall\n")
    before = Bag(tmp_path / "run")
    readable = list(before.messages())
    assert not before.complete
    assert mend(tmp_path / "run") == len(readable)
    after = Bag(tmp_path / "run")
    assert after.complete
    assert list(after.messages()) == readable
    assert after.information == before.information
    assert after.attachments == before.attachments
    assert (tmp_path / "run/PINNED").read_text() == "a fall\n"
    with AnyReader([tmp_path / "run"]) as reader:
        assert reader.message_count == len(readable)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run"]


def test_the_recorders_own_namespace_comes_first(tmp_path: Path) -> None:
    writer = BagWriter(tmp_path / "run", {"namespace": "/"})
    for name in ("/odom", "/twin/odom"):
        writer.add_topic(Topic(name, LATCHED.type, LATCHED.definition))
        writer.write([Message(1, name, 1, 1, b"")])
    writer.close()
    assert Bag(tmp_path / "run").require("odom").name == "/odom"
    assert Bag(tmp_path / "run").require("twin/odom").name == "/twin/odom"
