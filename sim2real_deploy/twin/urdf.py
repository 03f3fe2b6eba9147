"""Makes a robot's URDF from its MJCF, so that the twin, RViz and navigation use the same facts.

The result is stored beside the robot's file in config/robots, so that a robot's computer can
publish it without MuJoCo. After a change of the MJCF: `python -m sim2real_deploy.twin.urdf go2 >
config/robots/go2.urdf`. URDF lacks capsules and ellipsoids: they become a cylinder with two
spheres, and a box.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

import mujoco
import numpy as np

from sim2real_deploy.robots import RobotSpec, load_robot
from sim2real_deploy.twin.floors import named_floor
from sim2real_deploy.twin.model import BASE, IMU_SITE, Floats64, build_model

BASE_LINK, IMU_LINK = "base_link", "imu_link"
_SEEN, _COLLIDES = 2, 3  # groups of geoms
_STRAIGHT = 1 - 1e-9  # a sine
_ELLIPSOID_SHARE = 0.8  # of its axes, for a box of about the same size
_SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("SPHERE", "CAPSULE", "ELLIPSOID", "CYLINDER")
)


def urdf(robot: RobotSpec) -> str:
    model = build_model(robot, named_floor("flat"))
    root = Xml.Element("robot", name=robot.name)
    trunk = model.body(BASE).id
    for body in range(trunk, model.nbody):
        if model.body_rootid[body] == trunk:
            root.append(_link(robot, model, body))
            if body != trunk:
                root.append(_joint(robot, model, body))
    _fixed(root, BASE_LINK, IMU_LINK, model.site(IMU_SITE).pos)
    for leg in robot.legs.values():
        foot = model.geom(leg.foot)
        _fixed(root, _name(model, int(foot.bodyid[0])), f"{leg.foot}_link", foot.pos)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _name(model: Any, body: int) -> str:
    name = str(model.body(body).name)
    return BASE_LINK if name == BASE else name


def _link(robot: RobotSpec, model: Any, body: int) -> Xml.Element:
    link = Xml.Element("link", name=_name(model, body))
    inertial = Xml.SubElement(link, "inertial")
    _origin(inertial, model.body_ipos[body], model.body_iquat[body])
    Xml.SubElement(inertial, "mass", value=_text(model.body_mass[body]))
    ixx, iyy, izz = (_text(value) for value in model.body_inertia[body])
    Xml.SubElement(inertial, "inertia", ixx=ixx, iyy=iyy, izz=izz, ixy="0", ixz="0", iyz="0")
    feet = {leg.foot for leg in robot.legs.values()}
    first = model.body_geomadr[body]
    for geom in range(first, first + model.body_geomnum[body]):
        group, is_foot = model.geom_group[geom], model.geom(geom).name in feet
        if group == _SEEN:
            colour = model.geom_rgba[geom]
            if model.geom_matid[geom] >= 0:
                colour = model.mat_rgba[model.geom_matid[geom]]
            for visual in _shapes(link, "visual", model, geom):
                material = Xml.SubElement(visual, "material", name=_colour_name(colour))
                Xml.SubElement(material, "color", rgba=_text(*colour))
        if group == _COLLIDES or is_foot:
            for _ in _shapes(link, "collision", model, geom):
                pass
    return link


def _shapes(link: Xml.Element, tag: str, model: Any, geom: int) -> Iterator[Xml.Element]:
    at, turn = model.geom_pos[geom], model.geom_quat[geom]
    for kind, sizes, offset in _primitives(int(model.geom_type[geom]), model.geom_size[geom]):
        element = Xml.SubElement(link, tag)
        moved = np.zeros(3)
        mujoco.mju_rotVecQuat(moved, np.array([0.0, 0.0, offset]), turn)
        _origin(element, at + moved, turn)
        Xml.SubElement(Xml.SubElement(element, "geometry"), kind, sizes)
        yield element


def _primitives(kind: int, size: Floats64) -> Iterator[tuple[str, dict[str, str], float]]:
    """URDF shapes for a MuJoCo shape: kind, sizes, offset along the shape's z axis."""
    radius = {"radius": _text(size[0])}
    if kind == _SPHERE:
        yield "sphere", radius, 0.0
    elif kind in (_CYLINDER, _CAPSULE):
        yield "cylinder", {**radius, "length": _text(2 * size[1])}, 0.0
        if kind == _CAPSULE:
            yield "sphere", radius, float(size[1])
            yield "sphere", radius, -float(size[1])
    else:
        share = _ELLIPSOID_SHARE if kind == _ELLIPSOID else 1.0
        yield "box", {"size": _text(*(2 * share * size))}, 0.0


def _joint(robot: RobotSpec, model: Any, body: int) -> Xml.Element:
    joint = model.joint(int(model.body_jntadr[body]))
    facts = robot.joints[robot.joint_names.index(joint.name)]
    element = Xml.Element("joint", name=joint.name, type="revolute")
    _origin(element, model.body_pos[body], model.body_quat[body])
    Xml.SubElement(element, "parent", link=_name(model, int(model.body_parentid[body])))
    Xml.SubElement(element, "child", link=_name(model, body))
    Xml.SubElement(element, "axis", xyz=_text(*joint.axis))
    low, high = facts.position
    limits = {"lower": low, "upper": high, "effort": facts.torque, "velocity": facts.velocity}
    Xml.SubElement(element, "limit", {name: _text(value) for name, value in limits.items()})
    return element


def _fixed(root: Xml.Element, parent: str, child: str, at: Sequence[float]) -> None:
    Xml.SubElement(root, "link", name=child)
    joint = Xml.SubElement(root, "joint", name=f"{child}_joint", type="fixed")
    Xml.SubElement(joint, "origin", xyz=_text(*at), rpy="0 0 0")
    Xml.SubElement(joint, "parent", link=parent)
    Xml.SubElement(joint, "child", link=child)


def _origin(element: Xml.Element, at: Sequence[float], quaternion: Sequence[float]) -> None:
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.asarray(quaternion, float))
    Xml.SubElement(element, "origin", xyz=_text(*at), rpy=_text(*_angles(turn.reshape(3, 3))))


def _angles(turn: Floats64) -> tuple[float, float, float]:
    """Roll, pitch, yaw. At a pitch of 90 degrees roll and yaw coincide: then all is yaw."""
    pitch = math.asin(max(-1.0, min(1.0, -float(turn[2, 0]))))
    if abs(turn[2, 0]) > _STRAIGHT:
        return 0.0, pitch, math.atan2(-turn[0, 1], turn[1, 1])
    return math.atan2(turn[2, 1], turn[2, 2]), pitch, math.atan2(turn[1, 0], turn[0, 0])


def _text(*values: float) -> str:
    """Enough digits, and the same on every computer."""
    return " ".join(f"{round(float(value), 10) + 0.0:.8g}" for value in values)


def _colour_name(colour: Sequence[float]) -> str:
    return "colour_" + "".join(f"{round(255 * float(part)):02x}" for part in colour)


if __name__ == "__main__":
    sys.stdout.write(urdf(load_robot(sys.argv[1])))
