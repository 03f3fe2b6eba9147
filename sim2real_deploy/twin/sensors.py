"""What the robot's sensors say of the truth in the physics: encoders and IMU with their errors."""

import math

import numpy as np
import numpy.typing as npt

from sim2real_deploy.twin import config
from sim2real_deploy.twin.noise import WhiteNoise

Vector = npt.NDArray[np.float64]


class Encoders:
    """Joint positions, velocities and torques as the boards measure them."""

    def __init__(self, joints: int, errors: config.Encoders, rng: np.random.Generator) -> None:
        self.readings = np.zeros((3, joints))  # position, velocity, torque
        self.q, self.dq, self.torque = self.readings
        self.q_and_dq = self.readings[:2]
        self._noise: Vector = np.zeros((3, joints))
        spread = np.repeat([errors.position, errors.velocity, errors.torque], joints)
        self._source = WhiteNoise(rng, spread) if spread.any() else None

    def draw(self) -> None:
        """New noise, for the readings up to the next draw."""
        if self._source is not None:
            self._noise = self._source.row().reshape(self.readings.shape)

    def measure(self, truth: Vector) -> None:
        """Take a reading of the true positions, velocities and torques (rows)."""
        np.add(truth, self._noise, self.readings)


class Imu:
    """Attitude, rates and acceleration. The gyro's bias drifts, and heading drifts with it;
    roll and pitch do not, since the vendor's filter leans on gravity."""

    def __init__(self, errors: config.Imu, period_s: float, rng: np.random.Generator) -> None:
        self.readings = np.zeros(10)
        self.quaternion = self.readings[:4]
        self.gyroscope = self.readings[4:7]
        self.accelerometer = self.readings[7:]
        self._period = period_s
        self.bias: Vector = rng.standard_normal(3) * errors.gyro_bias
        self._heading_error = 0.0
        spread = [errors.gyro] * 3 + [errors.accelerometer] * 3
        spread += [errors.gyro_drift * math.sqrt(period_s)] * 3
        perfect = not (any(spread) or errors.gyro_bias)
        self._noise = None if perfect else WhiteNoise(rng, spread)

    def measure(self, quaternion: Vector, rate: Vector, acceleration: Vector) -> None:
        """Take one reading of body attitude (w, x, y, z), body rates and specific force."""
        self.quaternion[:], self.gyroscope[:] = quaternion, rate
        self.accelerometer[:] = acceleration
        if self._noise is None:
            return
        noise = self._noise.row()
        bias, rates_and_forces = self.bias, self.readings[4:]
        np.add(bias, noise[6:], bias)
        np.add(self.gyroscope, bias, self.gyroscope)
        np.add(rates_and_forces, noise[:6], rates_and_forces)
        self._heading_error += self.bias[2] * self._period
        self._turn(self._heading_error)

    def _turn(self, yaw: float) -> None:
        w, x, y, z = self.quaternion.tolist()
        c, s = math.cos(yaw / 2), math.sin(yaw / 2)
        self.quaternion[:] = (c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w)
