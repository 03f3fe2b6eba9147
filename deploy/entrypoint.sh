#!/bin/bash
set -e
source /opt/ros/jazzy/setup.bash
source /workspace/install/setup.sh
exec "$@"
