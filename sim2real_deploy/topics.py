"""Names of topics and services, relative to the robot's namespace. All code uses these."""

# Written by the recorder from the robot's own bus (rt/lowstate, rt/lowcmd)
LOW_STATE = "wire/lowstate"
LOW_CMD = "wire/lowcmd"

# Published by control
TICKS = "control/ticks"
MODE = "control/mode"
LEASE = "control/lease"  # who commands the velocity now
STATISTICS = "control/stats"
ADAPTATION = "control/adaptation"
POLICY = "control/policy"  # the name of the active one
OBSERVATION = "policy/observation"  # of the first policy; of others see `observation`
ACTION = "policy/action"
ESTIMATES = "policy/estimates"  # of the robot, by the network, if it has such outputs
COMMAND_ASKED = "command/asked"
COMMAND_SENT = "command/sent"
COMMAND_LIMITS = "command/limits"
JOINTS = "joint_states"
IMU = "imu/data"
BATTERY = "battery_state"
TEMPERATURES = "joint_temperatures"
FOOT_FORCES = "foot_forces"
ODOMETRY = "odom"
DESCRIPTION = "robot_description"
TRANSFORMS = "/tf"
REMOTE = "remote"

# The same topics in the types of sim2real_msgs, where these are installed; not recorded
TYPED_TICKS = "typed/ticks"
TYPED_LIMITS = "typed/limits"
TYPED_POLICY_STEP = "typed/policy_step"
TYPED_MODE = "typed/mode"
TYPED_LEASE = "typed/lease"

# Read by control
VELOCITY = "cmd_vel"  # of programs, Twist or TwistStamped: the source with the lowest priority
VELOCITY_TELEOP = "teleop/cmd_vel"
VELOCITY_PAGE = "dashboard/cmd_vel"
JOY = "joy"

# Published by others
SAFETY = "safety/state"
RUN = "recorder/run"
TRUTH = "twin/odom"
DIAGNOSTICS = "/diagnostics"

# Services of the safety supervisor; those of control are below <robot>_driver
ESTOP = "safety/estop"
STOP = "safety/stop"
RESET = "safety/reset"
SAFETY_REQUESTS = ("estop", "stop", "reset")


def service(robot: str, request: str) -> str:
    """The service for a request such as `estop` or `stand`."""
    return f"safety/{request}" if request in SAFETY_REQUESTS else f"{robot}_driver/{request}"


def is_typed(topic: str, namespace: str) -> bool:
    """Whether a full name is one of the typed topics of this namespace."""
    return topic.startswith(f"{namespace.rstrip('/')}/typed/")


def part(policy: str, place: int) -> str:
    """The part of topic names that distinguishes policies: empty for the first, else its name."""
    return f"{word(policy)}/" if place else ""


def observation(policy: str, place: int) -> str:
    """The topic of a policy's observations; `place` is its index in the list of policies."""
    return f"policy/{part(policy, place)}observation"


def action(policy: str, place: int) -> str:
    return f"policy/{part(policy, place)}action"


def estimates(policy: str, place: int) -> str:
    return f"policy/{part(policy, place)}estimates"


def switch_to(policy: str) -> str:
    """The request for this policy, for `service`."""
    return f"switch_to/{word(policy)}"


def word(name: str) -> str:
    """A name as part of a ROS name: letters, digits and underscores."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return plain if plain[:1].isalpha() else f"p_{plain}"


def extra(name: str) -> str:
    """The topic of a policy's input besides the velocity command."""
    return f"policy/{name}"
