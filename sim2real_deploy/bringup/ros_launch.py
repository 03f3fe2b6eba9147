"""A bring-up's graph as a launch description. The only place that imports launch and launch_ros."""

import os

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import (
    DeclareLaunchArgument,
    OpaqueFunction,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from sim2real_deploy.bringup.graph import BRINGUPS, resolve
from sim2real_deploy.bringup.launcher import RESPAWN_PAUSE_S, STOP_PATIENCE_S
from sim2real_deploy.paths import PACKAGE
from sim2real_deploy.runtime import stop_order

DISCOVERY = "ROS_AUTOMATIC_DISCOVERY_RANGE"


def description(bringup: str) -> LaunchDescription:
    """Arguments and nodes of one of bringup.BRINGUPS."""
    arguments, _ = BRINGUPS[bringup]
    entities: list[LaunchDescriptionEntity] = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=argument.choices or None,
        )
        for argument in arguments
    ]
    if DISCOVERY not in os.environ:
        entities.append(SetEnvironmentVariable(DISCOVERY, "LOCALHOST"))
    entities.append(OpaqueFunction(function=_nodes, args=[bringup]))
    return LaunchDescription(entities)


def _nodes(context: LaunchContext, bringup: str) -> list[Node]:
    arguments, graph = BRINGUPS[bringup]
    given = {a.name: LaunchConfiguration(a.name).perform(context) for a in arguments}
    values = resolve(arguments, given)
    processes = graph(values)
    params_file = [values["params_file"]] if values["params_file"] else []
    return [
        Node(
            package=PACKAGE,
            executable=process.name,
            namespace=values["namespace"],
            parameters=[*params_file, dict(process.parameters)],  # the last one wins
            additional_env=stop_order.environment(index, len(processes)),
            output="screen",
            emulate_tty=True,
            respawn=process.respawn,
            respawn_delay=RESPAWN_PAUSE_S,
            sigterm_timeout=str(STOP_PATIENCE_S),
            on_exit=Shutdown(reason=f"{process.name} has ended") if process.essential else None,
        )
        for index, process in enumerate(processes)
    ]
