"""A recorded run played back into ROS: `bag:=FOLDER`, and `dashboard:=true` to see it."""

from launch import LaunchDescription

from sim2real_deploy.bringup.ros_launch import description


def generate_launch_description() -> LaunchDescription:
    return description("replay")
