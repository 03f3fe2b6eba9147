"""Rendering without a display. MuJoCo reads the choice on import, so choose before."""

import ctypes.util
import os

from sim2real_deploy.errors import Refusal

_KNOWN = ("glfw", "egl", "osmesa")  # with any other value MuJoCo ends the program


def choose_renderer() -> None:
    """Without a display, render in software or on the GPU, whichever library is installed."""
    software = ctypes.util.find_library("OSMesa") is not None
    asked = os.environ.get("MUJOCO_GL")
    if asked is not None:
        _check(asked, software)
    elif not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ["MUJOCO_GL"] = "osmesa" if software else "egl"


def _check(asked: str, software: bool) -> None:
    if asked.lower() not in _KNOWN:
        raise Refusal(f"MUJOCO_GL is '{asked}'; set it to one of {', '.join(_KNOWN)}, or unset it")
    if asked.lower() == "osmesa" and not software:
        raise Refusal(
            "MUJOCO_GL is osmesa, and the library is not installed: install it "
            "(apt-get install libosmesa6), or unset MUJOCO_GL"
        )
