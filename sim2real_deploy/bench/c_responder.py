"""Builds and runs the C responder that `bench control` compares with (c_responder.c).

Topics, descriptor and libddsc are our own wire room's: the two differ in the interpreter alone.
"""

import ctypes
import shutil
import subprocess
from ctypes import POINTER, c_float, c_int32, c_uint8, c_uint32, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from sim2real_deploy.errors import Refusal
from sim2real_deploy.policy.bundle import Bundle
from sim2real_deploy.robots import JointCommand, RobotSpec
from sim2real_deploy.wire.channels import RawReader, RawWriter
from sim2real_deploy.wire.encoders import CommandEncoder
from sim2real_deploy.wire.layout import HEADER, Layout
from sim2real_deploy.wire.libddsc import library
from sim2real_deploy.wire.messages import FAMILIES, PD

SOURCE = Path(__file__).with_suffix(".c")
# Sums may be reordered, so that the network is vectorised. Not -ffast-math: a library linked with
# it turns subnormal numbers off in the whole process that loads it.
REORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
FLAGS = ("-O3", "-march=native", *REORDER, "-shared", "-fPIC", "-pthread")
STRUCTURES = {"c": "answer_on_arrival", "c_thread": "write_by_thread"}
WORST_STEP = 0.2  # rad


def build(folder: Path) -> Path:
    """Compile into a folder; a Refusal says why it could not be."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Refusal("no C compiler: apt-get install gcc")
    built = folder / "c_responder.so"
    command = [compiler, *FLAGS, "-o", str(built), str(SOURCE), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refusal(f"{compiler} failed: {done.stderr.strip()[-300:]}")
    return built


class _Job(ctypes.Structure):
    """job_t in c_responder.c."""

    _fields_ = (
        *((name, c_int32) for name in ("reader", "waitset", "writer")),
        *((name, c_void_p) for name in ("wait", "take", "write")),
        *((name, c_uint32) for name in ("state_size", "command_size")),
        *((name, POINTER(c_uint32)) for name in ("state_gather", "crc_gather")),
        *((name, c_uint32) for name in ("state_words", "command_words")),
        *((name, POINTER(c_uint32)) for name in ("q", "dq", "imu", "motor")),
        *((name, c_uint32) for name in ("tick", "mark", "joints", "every")),
        ("layers", POINTER(c_uint32)),
        ("weights", POINTER(c_float)),
        ("layer_count", c_uint32),
        *((name, POINTER(c_float)) for name in ("offset", "scale", "low", "high", "kp", "kd")),
        ("step", c_float),
        ("command", POINTER(c_uint8)),
        ("stop", c_int32),
    )


class CResponder:
    """Runs in the calling thread, without the interpreter's lock, until `stop`."""

    def __init__(
        self,
        built: Path,
        bundle: Bundle,
        spec: RobotSpec,
        reader: RawReader[bytes],
        writer: RawWriter[bytes],
    ) -> None:
        self._run = ctypes.CDLL(str(built))
        self._job, self._kept = _Job(), list[Any]()
        self._connect(reader, writer)
        self._describe(spec)
        self._load(bundle, spec)

    def run(self, structure: str) -> None:
        """`structure`: a key of STRUCTURES."""
        getattr(self._run, STRUCTURES[structure])(ctypes.byref(self._job))

    def stop(self) -> None:
        """From another thread."""
        self._job.stop = 1

    def _connect(self, reader: RawReader[bytes], writer: RawWriter[bytes]) -> None:
        job, dds = self._job, library()
        job.reader, job.waitset, job.writer = reader.entity, reader.waitset, writer.entity
        for name, function in (
            ("wait", dds.dds_waitset_wait),
            ("take", dds.dds_take),
            ("write", dds.dds_write),
        ):
            setattr(job, name, ctypes.cast(function, c_void_p).value)

    def _describe(self, spec: RobotSpec) -> None:
        """The positions of the fields in both messages."""
        job, family, joints = self._job, FAMILIES[spec.wire.family], spec.joint_count
        state, command = family.state, family.command
        job.state_size, job.command_size = state.size, command.size
        job.state_words, job.command_words = (len(x.crc_gather) // 4 for x in (state, command))
        self._numbers("state_gather", state.crc_gather)
        self._numbers("crc_gather", command.crc_gather)
        self._numbers("q", _bytes(state, "motor_state.q", joints))
        self._numbers("dq", _bytes(state, "motor_state.dq", joints))
        imu = [_bytes(state, f"imu_state.{name}") for name in ("quaternion", "gyroscope")]
        self._numbers("imu", np.concatenate(imu))
        self._numbers("motor", np.stack([_bytes(command, f"motor_cmd.{x}", joints) for x in PD], 1))
        job.tick, job.mark = state.span("tick").start, command.span("reserve").start
        job.joints, job.step = joints, WORST_STEP
        blank = CommandEncoder(spec).encode(JointCommand.damping(joints, 1.0))
        sample = np.frombuffer(bytes(HEADER) + blank[HEADER:], np.uint8)
        self._keep("command", sample.copy(), c_uint8)

    def _load(self, bundle: Bundle, spec: RobotSpec) -> None:
        """A network with the policy's layers one after another, and its gains."""
        job, contract = self._job, bundle.contract
        job.every = round(spec.wire.rate_hz / contract.rate_hz)
        layers, random = _layers(bundle), np.random.default_rng(0)
        self._numbers("layers", np.array(layers))
        job.layer_count = len(layers)
        sizes = [outputs * (inputs + 1) for inputs, outputs in layers]
        self._keep("weights", random.normal(0, 0.05, sum(sizes)).astype(np.float32), c_float)
        policy = bundle.open()
        scale = np.resize(np.array(contract.action.scale, np.float32), spec.joint_count)
        for name, values in (
            ("offset", spec.stand_pose),
            ("scale", scale),
            ("low", spec.position_low),
            ("high", spec.position_high),
            ("kp", policy.kp),
            ("kd", policy.kd),
        ):
            self._keep(name, np.array(values, np.float32), c_float)

    def _numbers(self, name: str, values: Any) -> None:
        self._keep(name, np.array(values, np.uint32), c_uint32)

    def _keep(self, name: str, values: Any, kind: Any) -> None:
        values = np.ascontiguousarray(values)
        self._kept.append(values)  # the C code reads it where it is
        setattr(self._job, name, values.ctypes.data_as(POINTER(kind)))


def _bytes(layout: Layout, path: str, count: int = 0) -> Any:
    """Byte offsets of float fields in a sample."""
    place = layout.floats(path, count)
    return 4 * np.arange(place.stop)[place]


def _layers(bundle: Bundle) -> list[tuple[int, int]]:
    """Inputs and outputs of every matrix in the network, in the order they are applied."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise Refusal("the network's size is not known: pip install onnx") from None
    model = onnx.load_from_string(bundle.model)
    matrices = [tuple(x.dims) for x in model.graph.initializer if len(x.dims) == 2]
    return [(inputs, outputs) for outputs, inputs in matrices]
