"""The twin's MuJoCo model rebuilt in Drake: the same bodies, joints and shapes.

Everything is read from the compiled MuJoCo model, so there is no second set of numbers.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from pydrake.common import MemoryFile
from pydrake.geometry import (
    AddCompliantHydroelasticProperties,
    AddContactMaterial,
    AddRigidHydroelasticProperties,
    Box,
    Capsule,
    CollisionFilterDeclaration,
    Cylinder,
    GeometrySet,
    HalfSpace,
    InMemoryMesh,
    Mesh,
    ProximityProperties,
    Sphere,
)
from pydrake.math import RigidTransform, RotationMatrix
from pydrake.multibody.plant import AddMultibodyPlant, CoulombFriction, MultibodyPlantConfig
from pydrake.multibody.tree import (
    FixedOffsetFrame,
    RevoluteJoint,
    RotationalInertia,
    SpatialInertia,
)
from pydrake.systems.framework import DiagramBuilder

from sim2real_deploy.errors import Refusal

logging.getLogger("drake").setLevel(logging.ERROR)  # warns that half spaces have no compliant mesh

Places = npt.NDArray[np.intp]

_GEOM, _JOINT = mujoco.mjtGeom, mujoco.mjtJoint
_ROUND = 0.012  # m, facet size of round shapes in hydroelastic contact
# A foot yields by a millimetre, as in MuJoCo. Drake's near-rigid default depends on the time step
# so much that a fast gait loses a fifth of its speed.
_STIFFNESS = 5e4  # N/m, point contact
_MODULUS = 1e7  # Pa, hydroelastic contact
_DISSIPATION = 2.0  # s/m
_COARSER = 2  # of a height field only every second point, to build in a second


@dataclass(frozen=True, slots=True)
class DrakeModel:
    """A Drake system ready to step, and the mapping between its state and MuJoCo's."""

    diagram: Any
    plant: Any
    geoms: dict[Any, int]  # MuJoCo's geom by Drake's geometry id
    positions: Places  # for each of Drake's, which one of MuJoCo's it is
    velocities: Places


def build(model: Any) -> DrakeModel:
    """Friction is the floor's everywhere. Joint damping, dry friction and motors are left out: they
    come in as external forces."""
    builder = DiagramBuilder()
    plant, scene = AddMultibodyPlant(
        MultibodyPlantConfig(
            time_step=model.opt.timestep,
            contact_model="hydroelastic_with_fallback",
            discrete_contact_approximation="lagged",
            use_sampled_output_ports=False,
        ),
        builder,
    )
    bodies = {0: plant.world_body()}
    hinges = []
    for body in range(1, model.nbody):
        if model.body_mocapid[body] < 0:
            bodies[body] = plant.AddRigidBody(model.body(body).name, _inertia(model, body))
            hinges += _attach(model, plant, bodies, body)
    geoms = _add_geoms(model, plant, bodies)
    plant.Finalize()
    _exclude(model, scene.collision_filter_manager(), geoms)
    base = bodies[model.jnt_bodyid[0]]
    place, motion = base.floating_positions_start(), base.floating_velocities_start_in_v()
    positions = np.empty(model.nq, np.intp)
    positions[place : place + 7] = 3, 4, 5, 6, 0, 1, 2
    positions[[hinge.position_start() for hinge in hinges]] = np.arange(7, model.nq)
    velocities = np.empty(model.nv, np.intp)
    velocities[motion : motion + 6] = 3, 4, 5, 0, 1, 2
    velocities[[hinge.velocity_start() for hinge in hinges]] = np.arange(6, model.nv)
    return DrakeModel(builder.Build(), plant, geoms, positions, velocities)


def _inertia(model: Any, body: int) -> Any:
    turn = _rotation(model.body_iquat[body]).matrix()
    central = turn @ np.diag(model.body_inertia[body]) @ turn.T
    rows, columns = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)  # the order Drake wants them in
    return SpatialInertia.MakeFromCentralInertia(
        model.body_mass[body],
        model.body_ipos[body],
        RotationalInertia(*central[rows, columns]),
    )


def _attach(model: Any, plant: Any, bodies: dict[int, Any], body: int) -> list[Any]:
    """Attach a body to its parent as in MuJoCo; returns its hinge, if it has one."""
    name, parent = model.body(body).name, bodies[model.body_parentid[body]]
    place = RigidTransform(_rotation(model.body_quat[body]), model.body_pos[body])
    joints = model.body_jntadr[body] + np.arange(model.body_jntnum[body])
    kinds = [_JOINT(kind) for kind in model.jnt_type[joints]]
    if kinds == [_JOINT.mjJNT_FREE]:
        return []
    if not kinds:
        plant.WeldFrames(parent.body_frame(), bodies[body].body_frame(), place)
        return []
    (joint,) = joints
    if kinds != [_JOINT.mjJNT_HINGE] or model.jnt_pos[joint].any():
        raise Refusal(f"body '{name}': for Drake, only hinges at a body's origin are supported")
    frame = plant.AddFrame(FixedOffsetFrame(f"{name}_place", parent.body_frame(), place))
    label, axis = model.joint(joint).name, model.jnt_axis[joint]
    low, high = model.jnt_range[joint]
    hinge = RevoluteJoint(label, frame, bodies[body].body_frame(), axis, low, high, 0.0)
    hinge = plant.AddJoint(hinge)
    motor = plant.AddJointActuator(label, hinge)  # its rotor inertia is the joint's armature
    motor.set_default_rotor_inertia(model.dof_armature[model.jnt_dofadr[joint]])
    motor.set_default_gear_ratio(1.0)
    return [hinge]


def _add_geoms(model: Any, plant: Any, bodies: dict[int, Any]) -> dict[Any, int]:
    """Round shapes get point contact; boxes, and everything on a rough floor, hydroelastic
    contact."""
    colliding = np.flatnonzero(model.geom_contype | model.geom_conaffinity).tolist()
    floor = [geom for geom in colliding if model.geom_bodyid[geom] == 0]
    rough = _GEOM.mjGEOM_HFIELD in model.geom_type[floor]
    friction = CoulombFriction(*[model.geom_friction[floor[0], 0]] * 2)
    geoms = {}
    for geom in colliding:
        material = ProximityProperties()
        AddContactMaterial(material, _DISSIPATION, _STIFFNESS, friction)
        if geom in floor:
            AddRigidHydroelasticProperties(_ROUND, material)
        elif rough or model.geom_type[geom] == _GEOM.mjGEOM_BOX:
            AddCompliantHydroelasticProperties(_ROUND, _MODULUS, material)
        body, name = bodies[model.geom_bodyid[geom]], model.geom(geom).name
        place = RigidTransform(_rotation(model.geom_quat[geom]), model.geom_pos[geom])
        shape = _shape(model, geom)
        geoms[plant.RegisterCollisionGeometry(body, place, shape, name, material)] = geom
    return geoms


def _shape(model: Any, geom: int) -> Any:
    kind, half = _GEOM(model.geom_type[geom]), model.geom_size[geom]
    shapes: dict[Any, Callable[[], Any]] = {
        _GEOM.mjGEOM_PLANE: HalfSpace,
        _GEOM.mjGEOM_SPHERE: lambda: Sphere(half[0]),
        _GEOM.mjGEOM_BOX: lambda: Box(*(2 * half)),
        _GEOM.mjGEOM_CAPSULE: lambda: Capsule(half[0], 2 * half[1]),
        _GEOM.mjGEOM_CYLINDER: lambda: Cylinder(half[0], 2 * half[1]),
        _GEOM.mjGEOM_HFIELD: lambda: _landscape(model, model.geom_dataid[geom]),
    }
    if kind not in shapes:
        name = model.geom(geom).name
        raise Refusal(f"geom '{name}': for Drake, shape {kind.name[7:].lower()} is not supported")
    return shapes[kind]()


def _landscape(model: Any, field: int) -> Any:
    """A height field as a mesh of triangles, facing up."""
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    width, depth, height, _ = model.hfield_size[field]
    start = model.hfield_adr[field]
    levels = model.hfield_data[start : start + rows * columns].reshape(rows, columns)
    x, y = np.linspace(-width, width, columns), np.linspace(-depth, depth, rows)
    grid = np.stack((*np.meshgrid(x, y), height * levels), axis=-1)[::_COARSER, ::_COARSER]
    number = 1 + np.arange(grid.shape[0] * grid.shape[1]).reshape(grid.shape[:2])
    near, right = number[:-1, :-1], number[:-1, 1:]
    left, far = number[1:, :-1], number[1:, 1:]
    faces = np.stack((near, right, far, near, far, left), axis=-1).reshape(-1, 3)
    points = [f"v {px:.6f} {py:.6f} {pz:.6f}" for px, py, pz in grid.reshape(-1, 3).tolist()]
    triangles = [f"f {a} {b} {c}" for a, b, c in faces.tolist()]
    text = "\n".join((*points, *triangles))
    return Mesh(InMemoryMesh(mesh_file=MemoryFile(text, ".obj", "landscape")))


def _exclude(model: Any, filters: Any, geoms: dict[Any, int]) -> None:
    """Pairs of bodies that MuJoCo's model lets pass through each other."""
    for signature in model.exclude_signature.tolist():
        first, second = (
            GeometrySet([key for key, geom in geoms.items() if model.geom_bodyid[geom] == body])
            for body in (signature >> 16, signature & 0xFFFF)
        )
        filters.Apply(CollisionFilterDeclaration().ExcludeBetween(first, second))


def _rotation(quaternion: npt.NDArray[np.float64]) -> Any:
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return RotationMatrix(matrix.reshape(3, 3))
