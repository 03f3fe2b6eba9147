"""The twin alone: a Go2 on the vendor's wire protocol, for any client."""

from launch import LaunchDescription

from sim2real_deploy.bringup.ros_launch import description


def generate_launch_description() -> LaunchDescription:
    return description("twin")
