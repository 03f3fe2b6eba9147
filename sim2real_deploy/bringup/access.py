"""Who may publish, subscribe to and call what in the ROS graph, as an SROS2 policy.

DDS Security then refuses everybody else: without one of these enclaves no program on the network
can publish a velocity or call a service of the stack. This covers ROS only. The robot's own bus is
the vendor's unsecured DDS: nothing but the robot and this computer may be on that network.
"""

from dataclasses import dataclass
from xml.etree import ElementTree

from sim2real_deploy import topics

STATES = (
    topics.TICKS, topics.MODE, topics.POLICY, topics.LEASE, topics.STATISTICS, topics.ADAPTATION,
    topics.OBSERVATION, topics.ACTION, topics.ESTIMATES, "policy/*",
    topics.COMMAND_ASKED, topics.COMMAND_SENT, topics.COMMAND_LIMITS, topics.JOINTS, topics.IMU,
    topics.BATTERY, topics.TEMPERATURES,
    topics.FOOT_FORCES, topics.ODOMETRY, topics.REMOTE, topics.DIAGNOSTICS,
    topics.DESCRIPTION, topics.TRANSFORMS, topics.TYPED_TICKS, topics.TYPED_LIMITS,
    topics.TYPED_POLICY_STEP, topics.TYPED_MODE, topics.TYPED_LEASE,
)  # fmt: skip
SHOWN = (topics.MODE, topics.POLICY, topics.SAFETY, topics.RUN, topics.STATISTICS)
MODES = ("stand", "walk", "sit", "damp", "recover", "excite", "switch", "switch_to/*")


@dataclass(frozen=True, slots=True)
class Access:
    """What one node may do; names are relative to the robot's namespace."""

    publishes: tuple[str, ...] = ()
    subscribes: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


def accesses(robot: str) -> dict[str, Access]:
    """Access by node. Each velocity topic has one publisher, and each stop one server."""
    stops = tuple(topics.service(robot, name) for name in topics.SAFETY_REQUESTS)
    modes = tuple(topics.service(robot, name) for name in MODES)
    seen = (topics.JOINTS, topics.ODOMETRY, topics.VELOCITY, topics.TEMPERATURES, topics.BATTERY)
    return {
        f"{robot}_driver": Access(
            STATES,
            (topics.VELOCITY, topics.VELOCITY_TELEOP, topics.VELOCITY_PAGE, topics.JOY),
            serves=modes,
        ),
        "safety_supervisor": Access(
            (topics.SAFETY, topics.DIAGNOSTICS), (topics.RUN, topics.DIAGNOSTICS), serves=stops
        ),
        "recorder": Access((topics.RUN, topics.DIAGNOSTICS), ("*",)),
        "teleop": Access((topics.VELOCITY_TELEOP,), SHOWN, calls=(*stops, *modes)),
        "dashboard": Access(
            (topics.VELOCITY_PAGE,),
            (*SHOWN, topics.LEASE, topics.DIAGNOSTICS, *seen),
            calls=(*stops, *modes),
        ),
        "rqt_sim2real": Access(
            (),
            (*SHOWN, topics.LEASE, topics.DIAGNOSTICS, topics.TICKS, *seen),
            calls=(*stops, *modes),
        ),
        "rqt_sim2real_stop": Access(calls=(topics.service(robot, "estop"),)),
        "sim2real_call": Access(calls=(*stops, *modes)),
        "planner": Access((topics.VELOCITY,), (*SHOWN, topics.ODOMETRY)),
        "joy_node": Access((topics.JOY,)),
    }


def policy_xml(robot: str, namespace: str = "") -> str:
    """The policy file, in the format of `ros2 security generate_policy`."""
    ns = f"/{namespace.strip('/')}".rstrip("/") + "/"
    root = ElementTree.Element("policy", version="0.2.0")
    enclaves = ElementTree.SubElement(root, "enclaves")
    for node, access in accesses(robot).items():
        enclave = ElementTree.SubElement(enclaves, "enclave", path=f"{ns}{node}")
        profiles = ElementTree.SubElement(enclave, "profiles")
        profile = ElementTree.SubElement(profiles, "profile", ns=ns.rstrip("/") or "/", node=node)
        for kind, verb, names in (
            ("topic", "publish", access.publishes),
            ("topic", "subscribe", access.subscribes),
            ("service", "reply", access.serves),
            ("service", "request", access.calls),
        ):
            if names:
                group = ElementTree.SubElement(profile, f"{kind}s", {verb: "ALLOW"})
                for name in names:
                    ElementTree.SubElement(group, kind).text = name
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
