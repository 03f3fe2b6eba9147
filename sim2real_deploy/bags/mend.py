"""Closes a bag that its recorder could not close, so that other tools can open it again.

Our own reader needs no mending; `ros2 bag`, Foxglove and PlotJuggler want the index at the end.
"""

import shutil
from pathlib import Path

from sim2real_deploy.bags.mcap_file import ENDINGS
from sim2real_deploy.bags.reader import Bag
from sim2real_deploy.bags.writer import INFORMATION, BagWriter
from sim2real_deploy.errors import Refusal


def mend(run: Path) -> int:
    """Rewrite the readable part of the bag in place; returns the number of messages."""
    bag = Bag(run)
    if not run.is_dir():
        raise Refusal(f"{run}: give the bag's directory, not a file in it")
    workshop = run.with_name(f".{run.name}.mending")
    shutil.rmtree(workshop, ignore_errors=True)
    writer = BagWriter(workshop / run.name, bag.information, bag.attachments)
    for name, record in bag.metadata.items():
        if name != INFORMATION:
            writer.annotate(name, record)
    for topic in bag.topics.values():
        writer.add_topic(topic)
    for messages in bag.chunks():
        writer.write(messages)
    writer.close()
    for other in run.iterdir():  # pins, reports, incident files
        if not other.name.endswith(ENDINGS) and other.name != "metadata.yaml":
            shutil.move(other, writer.directory / other.name)
    torn = run.with_name(f"{run.name}.torn")
    run.rename(torn)
    writer.directory.rename(run)
    shutil.rmtree(torn)
    workshop.rmdir()
    return sum(writer.counts.values())
