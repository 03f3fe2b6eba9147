"""nav2 on a Go2: this package's whole stack, the robot's description and nav2's servers.

Every argument of go2_walk.launch.py is taken and handed on.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from sim2real_deploy.paths import config_file, share_directory

SERVERS = {
    "controller_server": "nav2_controller",
    "planner_server": "nav2_planner",
    "behavior_server": "nav2_behaviors",
    "bt_navigator": "nav2_bt_navigator",
}


def generate_launch_description() -> LaunchDescription:
    walk = share_directory() / "launch" / "go2_walk.launch.py"
    description = config_file("robots/go2.urdf").read_text(encoding="utf-8")
    nav2_params = LaunchConfiguration("nav2_params")
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "nav2_params",
                default_value=str(Path(__file__).with_name("nav2_params.yaml")),
                description="Parameters of nav2's servers.",
            ),
            IncludeLaunchDescription(PythonLaunchDescriptionSource(str(walk))),
            Node(
                package="robot_state_publisher",
                executable="robot_state_publisher",
                parameters=[{"robot_description": description}],
            ),
            *(
                Node(package=package, executable=name, parameters=[nav2_params], output="screen")
                for name, package in SERVERS.items()
            ),
            Node(
                package="nav2_lifecycle_manager",
                executable="lifecycle_manager",
                name="lifecycle_manager_navigation",
                parameters=[{"autostart": True, "node_names": list(SERVERS)}],
                output="screen",
            ),
        ]
    )
