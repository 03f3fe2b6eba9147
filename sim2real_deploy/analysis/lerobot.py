"""Walks as a LeRobot dataset (format v2.1): one episode per run, at the policy's rate.

https://github.com/huggingface/lerobot. The state is what the policy could see; the action is the
joint targets that were sent. No videos.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim2real_deploy.analysis.gap.walk import Walk
from sim2real_deploy.errors import Refusal

VERSION = "v2.1"
CHUNK = 1000  # episodes in a folder
RATE_HZ = 50.0
TASK = "walk at the commanded velocity"
FILE = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
Array = npt.NDArray[Any]


def write_lerobot(walks: Sequence[Walk], folder: Path) -> list[Path]:
    robots = {walk.robot.name for walk in walks}
    if len(robots) != 1:
        raise Refusal(f"a LeRobot dataset holds one robot, not {', '.join(sorted(robots))}")
    import pyarrow.parquet

    written: list[Path] = []
    episodes, stats, frames = [], [], 0
    for number, walk in enumerate(walks):
        columns = _columns(walk, number, frames)
        place = FILE.format(episode_chunk=number // CHUNK, episode_index=number)
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(_table(columns), path)
        written.append(path)
        length = len(columns["index"])
        frames += length
        episodes.append(
            {"episode_index": number, "tasks": [TASK], "length": length, "run": walk.name}
        )
        stats.append({"episode_index": number, "stats": {k: _stats(v) for k, v in columns.items()}})
    meta = folder / "meta"
    meta.mkdir(exist_ok=True)
    info = _info(walks[0], len(walks), frames)
    (meta / "info.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
    for name, rows in (
        ("tasks", [{"task_index": 0, "task": TASK}]),
        ("episodes", episodes),
        ("episodes_stats", stats),
    ):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (meta / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return [meta / "info.json", *written]


def _names(walk: Walk) -> dict[str, list[str]]:
    joints = list(walk.robot.joint_names)
    state = [f"{joint}.{kind}" for kind in ("pos", "vel") for joint in joints]
    state += [f"{kind}.{axis}" for kind in ("gyro", "gravity") for axis in "xyz"]
    return {
        "observation.state": state,
        "observation.effort": [f"{joint}.torque" for joint in joints],
        "observation.velocity": ["x", "y", "z"],
        "observation.command": ["vx", "vy", "wz"],
        "action": [f"{joint}.pos" for joint in joints],
    }


def _columns(walk: Walk, episode: int, first: int) -> dict[str, Array]:
    every = max(1, round(walk.rate_hz / RATE_HZ))
    state = [walk[name] for name in ("q", "dq", "gyroscope", "gravity")]
    values = {
        "observation.state": np.hstack(state),
        "observation.effort": walk["torque"],
        "observation.velocity": walk["velocity"],
        "observation.command": walk["command"],
        "action": walk["target"],
    }
    columns: dict[str, Array] = {k: v[::every].astype(np.float32) for k, v in values.items()}
    count = np.arange(len(columns["action"]))
    columns["timestamp"] = (count * every / walk.rate_hz).astype(np.float32)
    columns["frame_index"] = count
    columns["episode_index"] = np.full_like(count, episode)
    columns["index"] = first + count
    columns["task_index"] = np.zeros_like(count)
    return columns


def _table(columns: dict[str, Array]) -> Any:
    import pyarrow

    arrays = {
        name: pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(v.ravel()), v.shape[1])
        if v.ndim == 2
        else pyarrow.array(v)
        for name, v in columns.items()
    }
    return pyarrow.table(arrays)


def _stats(values: Array) -> dict[str, list[float]]:
    rows = values.reshape(len(values), -1).astype(np.float64)
    return {
        "min": rows.min(axis=0).tolist(),
        "max": rows.max(axis=0).tolist(),
        "mean": rows.mean(axis=0).tolist(),
        "std": rows.std(axis=0).tolist(),
        "count": [len(rows)],
    }


def _info(walk: Walk, episodes: int, frames: int) -> dict[str, Any]:
    features: dict[str, Any] = {
        name: {"dtype": "float32", "shape": [len(names)], "names": names}
        for name, names in _names(walk).items()
    }
    features["timestamp"] = {"dtype": "float32", "shape": [1], "names": None}
    for name in ("frame_index", "episode_index", "index", "task_index"):
        features[name] = {"dtype": "int64", "shape": [1], "names": None}
    every = max(1, round(walk.rate_hz / RATE_HZ))
    return {
        "codebase_version": VERSION,
        "robot_type": walk.robot.name,
        "total_episodes": episodes,
        "total_frames": frames,
        "total_tasks": 1,
        "total_videos": 0,
        "total_chunks": -(-episodes // CHUNK),
        "chunks_size": CHUNK,
        "fps": round(walk.rate_hz / every),
        "splits": {"train": f"0:{episodes}"},
        "data_path": FILE,
        "video_path": None,
        "features": features,
    }
