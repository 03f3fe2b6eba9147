"""A set of runs for notebooks and for other people's training code."""

from collections.abc import Sequence
from pathlib import Path

from sim2real_deploy.analysis.export import export, require_pyarrow
from sim2real_deploy.analysis.gap.walk import walk_of_bag
from sim2real_deploy.analysis.lerobot import write_lerobot
from sim2real_deploy.analysis.run_list import as_rows, describe_run
from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.recorded import Recorded

INDEX = "runs.parquet"
LEAST_S = 1.0  # of walking that make an episode


def export_parquet(bags: Sequence[Path], folder: Path) -> list[Path]:
    """One row per run in runs.parquet; the topics of each run in a folder with the run's name."""
    require_pyarrow()
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    rows = as_rows(describe_run(bag) for bag in bags)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / INDEX)
    written = [folder / INDEX]
    for bag in bags:
        written += export(Bag(bag), folder / bag.resolve().name, "parquet")
    return written


def export_lerobot(bags: Sequence[Path], folder: Path) -> list[Path]:
    """The longest walk of each run as an episode."""
    require_pyarrow()
    return write_lerobot([walk_of_bag(Recorded.open(bag), LEAST_S) for bag in bags], folder)
