"""The battery: charge drains, voltage sags under load."""

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.twin.config import Power


class BatteryModel:
    """A pack with linear voltage from full to empty and one internal resistance."""

    def __init__(self, robot: RobotSpec, power: Power) -> None:
        self._facts = robot.battery
        self._power = power
        self.charge = power.charge
        self.current = power.idle
        self.voltage = self._open_circuit()
        self._sag()

    def draw(
        self, torque: npt.NDArray[np.float64], dq: npt.NDArray[np.float64], seconds: float
    ) -> None:
        """Supply the motors for a time; braking recharges."""
        watts = float(torque @ dq + self._power.copper * (torque @ torque))
        self.current = self._power.idle + watts / self.voltage
        self.charge -= self.current * seconds / (3600 * self._power.capacity)
        self.charge = min(max(self.charge, 0.0), 1.0)
        self._sag()

    @property
    def percent(self) -> int:
        return round(100 * self.charge)

    @property
    def supply(self) -> float:
        """Voltage as a fraction of a full pack's."""
        return self.voltage / self._facts.full_v

    def _open_circuit(self) -> float:
        facts = self._facts
        return facts.empty_v + (facts.full_v - facts.empty_v) * self.charge

    def _sag(self) -> None:
        self.voltage = max(self._open_circuit() - self.current * self._power.resistance, 1.0)
