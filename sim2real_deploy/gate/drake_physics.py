"""Drake as the engine behind the twin: a second opinion on rigid bodies, contact and friction.

In each time step Drake solves for the final velocities: multibody dynamics, joint limits, and
contact by a convex solver that shares neither equations nor code with MuJoCo's. Motors, gears,
boards, sensors, battery and faults remain the twin's own.

Differences to MuJoCo: round shapes touch in one point and boxes in an area, dry friction fades near
standstill, ropes stretch a little, and a rough floor is coarser.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import mujoco
import numpy as np
import numpy.typing as npt

from sim2real_deploy.gate.drake_model import build

Vector = npt.NDArray[np.float64]

_RATES = slice(3, 6)  # of the base, among MuJoCo's velocities
_AT_REST = 0.05  # rad/s, below which dry friction fades
_ROPE = 2e4  # N/m


class DrakePhysics:
    steps: ClassVar[int] = 2

    def __init__(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
        self._base = base = int(model.jnt_bodyid[0])
        self._turn = data.xmat[base].reshape(3, 3)  # from the base's axes to the world's
        self._push = data.xfrc_applied[base]
        self._qpos, self._qvel, self._qacc = data.qpos, data.qvel, data.qacc
        self._motors, self._passive = data.qfrc_actuator, data.qfrc_passive
        touch = model.sensor_type == mujoco.mjtSensor.mjSENS_TOUCH
        feet = [model.geom(model.site(site).name).id for site in model.sensor_objid[touch]]
        self._foot_sensors = dict(zip(feet, model.sensor_adr[touch].tolist(), strict=True))
        self._told = b""

    def step(self, count: int) -> None:
        model, data = self._model, self._data
        self._tell_changes()
        for _ in range(count):
            mujoco.mj_step1(model, data)
            mujoco.mj_fwdActuation(model, data)
            self._qacc[:] = (self._next_velocity() - self._qvel) / model.opt.timestep
            mujoco.mj_Euler(model, data)
        data.efc_force[:] = 0.0  # MuJoCo's own constraints were not asked
        mujoco.mj_rnePostConstraint(model, data)
        mujoco.mj_sensorAcc(model, data)
        self._feel_feet()

    def _tell_changes(self) -> None:
        """Rebuild Drake's model when masses or friction changed; update ropes."""
        model = self._model
        model.tendon_lengthspring[:] = model.tendon_range
        model.tendon_stiffness[:] = _ROPE * model.tendon_limited
        facts = model.body_mass.tobytes() + model.geom_friction.tobytes()
        if facts == self._told:
            return
        self._told, self._drake = facts, build(model)
        plant = self._drake.plant
        self._context = self._drake.diagram.CreateDefaultContext()
        self._plant_context = plant.GetMyMutableContextFromRoot(self._context)
        forces = plant.get_applied_generalized_force_input_port()
        self._forces = forces.FixValue(self._plant_context, np.zeros(model.nv))
        self._contacts = plant.get_contact_results_output_port()

    def _next_velocity(self) -> Vector:
        """The velocity at the end of the step. The base's rates are in body axes in MuJoCo, in
        world axes in Drake."""
        drake, turn = self._drake, self._turn
        velocity: Vector = self._qvel.copy()
        force = self._outer_force()
        velocity[_RATES] = turn @ velocity[_RATES]
        force[_RATES] = turn @ force[_RATES]
        state = np.concatenate((self._qpos[drake.positions], velocity[drake.velocities]))
        self._plant_context.SetDiscreteState(0, state)
        self._forces.GetMutableData().get_mutable_value().SetFromVector(force[drake.velocities])
        after = drake.diagram.EvalUniquePeriodicDiscreteUpdate(self._context).value()
        velocity[drake.velocities] = after[len(drake.positions) :]
        velocity[_RATES] = velocity[_RATES] @ turn
        return velocity

    def _outer_force(self) -> Vector:
        """Motors, damping, dry friction, ropes and pushes."""
        force: Vector = self._motors + self._passive
        force -= self._model.dof_frictionloss * np.tanh(self._qvel / _AT_REST)
        if self._push.any():
            at, (push, twist) = self._data.xipos[self._base], self._push.reshape(2, 3)
            mujoco.mj_applyFT(self._model, self._data, push, twist, at, self._base, force)
        return force

    def _feel_feet(self) -> None:
        """A foot sensor measures the normal force of its contacts."""
        readings, feet, geoms = self._data.sensordata, self._foot_sensors, self._drake.geoms
        readings[list(feet.values())] = 0.0
        for first, second, force in self._normal_forces():
            for geom in (geoms[first], geoms[second]):
                if geom in feet:
                    readings[feet[geom]] += force

    def _normal_forces(self) -> Iterator[tuple[Any, Any, float]]:
        """The normal force of each contact in the last step, with the two shapes."""
        results = self._contacts.Eval(self._plant_context)
        for number in range(results.num_point_pair_contacts()):
            contact = results.point_pair_contact_info(number)
            pair = contact.point_pair()
            yield pair.id_A, pair.id_B, abs(contact.contact_force() @ pair.nhat_BA_W)
        for number in range(results.num_hydroelastic_contacts()):
            contact = results.hydroelastic_contact_info(number)
            area, force = contact.contact_surface(), contact.F_Ac_W().translational()
            yield area.id_M(), area.id_N(), abs(force @ area.face_normal(0))
