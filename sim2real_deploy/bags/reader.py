"""Bag: a recorded run, read from a rosbag2 directory or a single .mcap file.

MCAP is read here, compressed or not. A directory with another storage is read by rosbag2_py, where
ROS 2 has it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path

from sim2real_deploy.bags.mcap_file import ALWAYS, ENDINGS, McapFile, Span
from sim2real_deploy.bags.rosbag2_bag import Rosbag2Bag
from sim2real_deploy.bags.topic import Message, Topic
from sim2real_deploy.bags.writer import INFORMATION
from sim2real_deploy.errors import Refusal

OTHER_STORAGES = (".db3", ".zstd", ".lz4")  # sqlite3, and whole files that rosbag2 compressed


class Bag:
    """Reads what is there: a truncated tail or a missing metadata.yaml is noted, not fatal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.span: Span = ALWAYS  # the part that is read
        self._files = _open_files(path)
        contents = [file.contents for file in self._files]
        self.topics: dict[str, Topic] = {
            topic.name: topic for found in contents for topic in found.topics.values()
        }
        self.metadata: dict[str, dict[str, str]] = {}
        self.attachments: dict[str, bytes] = {}
        for found in contents:
            self.metadata.update(found.metadata)
            self.attachments.update(found.attachments)
        if not self.topics:
            raise Refusal(f"{path}: holds no messages: nothing was recorded into it")

    @property
    def information(self) -> dict[str, str]:
        """What the recorder noted about the run: robot, stage, policy, versions, host."""
        return self.metadata.get(INFORMATION, {})

    @property
    def complete(self) -> bool:
        """Whether the recorder closed it properly."""
        return all(file.contents.complete for file in self._files)

    @property
    def problems(self) -> list[str]:
        return [problem for file in self._files for problem in file.contents.problems]

    def find(self, name: str) -> Topic | None:
        """A topic by relative name: in the recorder's namespace, or the only one of that name."""
        full_name = f"{self.information.get('namespace', '').rstrip('/')}/{name}"
        if full_name in self.topics:
            return self.topics[full_name]
        matches = [topic for full, topic in self.topics.items() if full.endswith(f"/{name}")]
        if len(matches) > 1:
            full_names = ", ".join(topic.name for topic in matches)
            raise Refusal(f"{self.path}: holds more than one robot's '{name}': {full_names}")
        return matches[0] if matches else None

    def require(self, name: str) -> Topic:
        topic = self.find(name)
        if topic is None:
            raise Refusal(
                f"{self.path}: has no topic '{name}': not a bag of this stack's recorder; "
                f"it holds: {', '.join(sorted(self.topics))}"
            )
        return topic

    def recorded_span(self) -> Span:
        """First and last log time in the file."""
        spans = [span for file in self._files for span in file.spans() if span[1]]
        return (min(s for s, _ in spans), max(e for _, e in spans) + 1) if spans else (0, 0)

    def within(self, span: Span) -> "Bag":
        """The same bag, restricted to this time."""
        part = copy(self)
        part.span = span
        return part

    def parts(self, longest_s: float) -> list[Span]:
        """The bag's time in parts of equal length, none longer than this."""
        start_ns, end_ns = self.recorded_span()
        count = max(1, -(-(end_ns - start_ns) // round(longest_s * 1e9)))
        edges = [start_ns + (end_ns - start_ns) * k // count for k in range(count + 1)]
        return list(pairwise(edges))

    def chunks(self, topics: Iterable[Topic] | None = None) -> Iterator[list[Message]]:
        """Messages chunk by chunk, each chunk in time order: memory stays small."""
        names = None if topics is None else frozenset(topic.name for topic in topics)
        for file in self._files:
            for messages in file.messages(names, self.span):
                messages.sort(key=lambda message: message.log_ns)
                yield messages

    def messages(self, topics: Iterable[Topic] | None = None) -> Iterator[Message]:
        for chunk in self.chunks(topics):
            yield from chunk


def _open_files(path: Path) -> Sequence[McapFile | Rosbag2Bag]:
    if path.is_file():
        if path.name.endswith(ENDINGS):
            return [McapFile(path)]
        raise Refusal(f"{path}: is neither a bag directory nor an .mcap file")
    if not path.is_dir():
        raise Refusal(f"{path}: there is no such bag")
    # After a playback both forms are there, since rosbag2 leaves what it has unpacked.
    found = {file.name.removesuffix(".zstd"): file for file in sorted(path.glob("*.mcap.zstd"))}
    found |= {file.name: file for file in path.glob("*.mcap")}
    files = sorted(found.values(), key=_file_number)
    if files:
        return [McapFile(file) for file in files]
    if any(file.suffix in OTHER_STORAGES for file in path.iterdir()):
        return [Rosbag2Bag(path)]
    raise Refusal(f"{path}: holds no .mcap file: not a bag")


def _file_number(path: Path) -> tuple[int, str]:
    number = re.search(r"_(\d+)\.mcap", path.name)
    return (int(number[1]) if number else 0, path.name)
