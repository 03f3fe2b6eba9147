#!/bin/sh
# What this package needs beside ROS 2, into a virtual environment that also sees ROS 2's own
# packages: newer Ubuntus refuse `pip install` outside of one. Then build with its Python:
#   deploy/install.sh ~/sim2real && . ~/sim2real/bin/activate && python3 -m colcon build
set -eu
target=${1:?usage: install.sh DIRECTORY}
python3 -m venv --system-site-packages "$target"
# Floors, as Ubuntu's own pydantic 1 and typer 0.9 would count as installed.
"$target/bin/pip" --disable-pip-version-check install \
  'pydantic>=2' 'typer>=0.12' rich psutil pyyaml fastcrc onnxruntime mcap \
  mujoco numba 'imageio[ffmpeg]' colcon-ros
