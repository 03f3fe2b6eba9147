"""A run as tables: one Parquet file or NumPy archive per topic."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.bags import Bag
from sim2real_deploy.bags.cdr import texts
from sim2real_deploy.bags.recorded import Recorded, Series
from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install

PART_S = 240.0  # held in memory at once


def export(bag: Bag, folder: Path, form: str) -> list[Path]:
    """Every topic with its receive and publish times in ns; joints have their names. A long bag
    gives each topic a folder of parts, which Parquet's readers take as one table."""
    recorded = Recorded(bag)
    if form == "parquet":
        require_pyarrow()
    suffix, write = ("parquet", _write_parquet) if form == "parquet" else ("npz", _write_numpy)
    written = []
    names = [topic.removeprefix("/") for topic in sorted(bag.topics)]
    spans = bag.parts(PART_S)
    for number, span in enumerate(spans):
        part = Recorded(bag.within(span) if len(spans) > 1 else bag)
        for name, series in part.load(names).items():
            columns = _columns(series, recorded.robot.joint_names)
            place = folder / name.replace("/", "__")
            if len(spans) > 1:
                place = place / f"part-{number:03d}"
            path = place.with_name(f"{place.name}.{suffix}")
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, columns)
            written.append(path)
    return written


def require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ModuleNotFoundError:
        raise Refusal(f"Parquet needs pyarrow: {to_install('analysis')}") from None


def _columns(series: Series, joints: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    columns: dict[str, npt.NDArray[Any]] = {
        "log_ns": series.log_ns,
        "publish_ns": series.publish_ns,
    }
    for name, values in series.columns.items():
        if values.ndim == 1:
            columns[name] = values
            continue
        per_joint = values.shape[1] == len(joints)
        for index in range(values.shape[1]):
            label = joints[index] if per_joint else str(index)
            columns[f"{name}.{label}"] = values[:, index]
    return columns


def _write_parquet(path: Path, columns: dict[str, npt.NDArray[Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(
        {
            name: pyarrow.array(texts(values) if values.dtype.kind == "S" else values)
            for name, values in columns.items()
        }
    )
    pyarrow.parquet.write_table(table, path, compression="zstd")


def _write_numpy(path: Path, columns: dict[str, npt.NDArray[Any]]) -> None:
    """Like numpy.savez_compressed, which refuses a column named `file`; /rosout has one."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, values in columns.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, values, allow_pickle=False)
