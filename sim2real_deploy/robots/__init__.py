"""What a robot is: facts from config/robots, and the state and command that flow."""

from sim2real_deploy.robots.spec import RobotSpec, load_robot
from sim2real_deploy.robots.state import JointCommand, RobotState, WholeState

__all__ = ["JointCommand", "RobotSpec", "RobotState", "WholeState", "load_robot"]
