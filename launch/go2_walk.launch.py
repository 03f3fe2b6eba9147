"""The whole stack for one Go2, on the twin or on the robot. `--show-args` lists the arguments."""

from launch import LaunchDescription

from sim2real_deploy.bringup.ros_launch import description


def generate_launch_description() -> LaunchDescription:
    return description("go2_walk")
