"""Records runs: bags are written by a separate thread, so that no other thread waits for the disk.

Any thread puts messages into a bounded queue; twice a second the writer thread writes a batch to
disk. What does not fit into the queue is counted per topic. When the disk is full, recording stops
and reports it; the rest of the stack is not affected.
"""

import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sim2real_deploy.bags import runs
from sim2real_deploy.bags.topic import Message, Topic
from sim2real_deploy.bags.writer import BagWriter

FLUSH_S = 0.4
COUNTS = "counts"  # the metadata record with the numbers of messages received and dropped
QUOTA_EVERY_S = 30.0
QUEUE_MESSAGES = 50_000  # some 20 s of a whole stack


@dataclass(frozen=True, slots=True)
class Storage:
    """Where runs are stored and how much disk space they may take."""

    root: Path
    quota_bytes: int = 20 << 30
    min_free_bytes: int = 500 << 20
    max_file_bytes: int = 1 << 30
    ring_s: float | None = None  # black box: how much to keep before an event ...
    after_event_s: float = 10.0  # ... and after it


class RunRecorder:
    """Writes one run after another; `failure` tells why recording stopped, "" while it runs."""

    def __init__(
        self,
        storage: Storage,
        label: str,
        information: Mapping[str, str],
        attachments: Mapping[str, bytes] | None = None,
    ) -> None:
        self.failure = ""
        self.received: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self._storage = storage
        self._label = label
        self._information = dict(information)
        self._attachments = dict(attachments or {})
        self._records: dict[str, dict[str, str]] = {}
        self._topics: dict[str, Topic] = {}
        self._queue: deque[Message] = deque()
        self._event = ""
        self._event_s: float | None = None
        self._quota_due_s = 0.0
        self._stop = threading.Event()
        self._writer = self._open_run()
        self._thread = threading.Thread(target=self._run, name="bag-writer", daemon=True)
        self._thread.start()

    @property
    def directory(self) -> Path:
        """The run being written now."""
        return self._writer.directory

    @property
    def written(self) -> dict[str, int]:
        return self._writer.counts

    def add_topic(self, topic: Topic) -> None:
        self._topics[topic.name] = topic

    def annotate(self, name: str, record: Mapping[str, str]) -> None:
        self._records = {**self._records, name: dict(record)}

    def put(self, message: Message) -> None:
        self.received[message.topic] += 1
        if self.failure or len(self._queue) >= QUEUE_MESSAGES:
            self.dropped[message.topic] += 1
        else:
            self._queue.append(message)

    def event(self, reason: str) -> None:
        """Pin the current run. A black box keeps its window, records `after_event_s` more, and then
        starts a new run."""
        self._event = reason

    def close(self) -> None:
        """Write what is queued and close the bag."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(FLUSH_S):
                self._flush()
                self._heed_event()
                self._keep_room()
            self._flush()
            self._writer.annotate(COUNTS, self._counts())
            self._writer.close()
        except OSError as error:
            self._give_up(str(error.strerror or error))
        except Exception as error:  # a thread that ended silently would leave an incomplete bag
            self._give_up(f"{type(error).__name__}: {error}")
            raise

    def _give_up(self, why: str) -> None:
        self.failure = f"recording stopped: {why} ({self.directory})"
        self._queue.clear()

    def _flush(self) -> None:
        # The batch first: a topic is added before its first message is put.
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        for name in self._topics.keys() - self._writer.topics.keys():
            self._writer.add_topic(self._topics[name])
        for name, record in self._records.items():
            if self._annotated.get(name) != record:
                self._writer.annotate(name, record)
                self._annotated[name] = record
        if batch:
            self._writer.write(batch)

    def _counts(self) -> dict[str, str]:
        received = {f"received{topic}": str(count) for topic, count in self.received.items()}
        dropped = {f"dropped{topic}": str(count) for topic, count in self.dropped.items()}
        return received | dropped

    def _heed_event(self) -> None:
        now_s = time.monotonic()
        if self._event:
            reason, self._event = self._event, ""
            runs.pin(self.directory, reason)
            self._writer.keep_all()
            self._event_s = now_s
        if (
            self._storage.ring_s is not None
            and self._event_s is not None
            and now_s - self._event_s >= self._storage.after_event_s
        ):
            self._event_s = None
            self._writer.close()
            now_ns = time.time_ns()
            latched = [m._replace(log_ns=now_ns) for m in self._writer.latched.values()]
            self._queue.extendleft(latched)  # latched topics continue in the next run
            self._writer = self._open_run()

    def _keep_room(self) -> None:
        """Delete old runs before the disk is full; if that is not enough, stop while some space is
        left."""
        storage = self._storage
        if time.monotonic() >= self._quota_due_s:
            runs.enforce_quota(storage.root, storage.quota_bytes, self.directory)
            self._quota_due_s = time.monotonic() + QUOTA_EVERY_S
        if shutil.disk_usage(storage.root).free < storage.min_free_bytes:
            self._writer.close()
            raise OSError(f"less than {storage.min_free_bytes >> 20} MB free on the disk")

    def _open_run(self) -> BagWriter:
        storage = self._storage
        storage.root.mkdir(parents=True, exist_ok=True)
        self._annotated: dict[str, dict[str, str]] = {}
        return BagWriter(
            runs.new_run(storage.root, self._label),
            self._information,
            self._attachments,
            storage.max_file_bytes,
            storage.ring_s,
        )
