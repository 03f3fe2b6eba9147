"""The stack, and an operator that walks a short programme and judges it, as `make walk` does."""

from launch import LaunchDescription

from sim2real_deploy.bringup.ros_launch import description


def generate_launch_description() -> LaunchDescription:
    return description("walk_programme")
