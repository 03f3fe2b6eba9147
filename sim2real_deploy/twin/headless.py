"""Drawing without a display. MuJoCo reads the choice when it is imported: choose before."""

import ctypes.util
import os


def choose_renderer() -> None:
    """Where there is no display, draw in software or on the GPU, whichever library is there."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return
    software = ctypes.util.find_library("OSMesa") is not None
    os.environ.setdefault("MUJOCO_GL", "osmesa" if software else "egl")
