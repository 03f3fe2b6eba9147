"""The height map that a perceptive policy asks for, as the twin's ground has it."""

from rclpy.node import Node
from std_msgs.msg import Float32MultiArray

from sim2real_deploy import topics
from sim2real_deploy.policy.contract import listed, load_contract
from sim2real_deploy.policy.height_grid import HEIGHT_SCAN, HeightGrid, height_grid
from sim2real_deploy.twin.height_scan import TYPICAL, HeightScan
from sim2real_deploy.twin.robot import BaseTruth, TwinRobot


class TwinMap:
    """Publishes height scans with the errors of a real map: noise, delay and holes.

    On the robot the user's own mapping publishes on this topic.
    """

    def __init__(self, node: Node, body: TwinRobot, grid: HeightGrid, seed: int) -> None:
        self._scan = HeightScan(body.floor, grid, TYPICAL, seed)
        self._publisher = node.create_publisher(Float32MultiArray, topics.extra(HEIGHT_SCAN), 1)

    def look(self, now_ns: int, truth: BaseTruth) -> None:
        heights = self._scan.look(now_ns / 1e9, truth)
        if heights is not None:
            self._publisher.publish(Float32MultiArray(data=heights))


def grid_for(policies: str) -> HeightGrid | None:
    """The grid of the first policy in a comma-separated list that observes heights, if any does."""
    grids = (height_grid(load_contract(name)) for name in listed(policies))
    return next((grid for grid in grids if grid is not None), None)
