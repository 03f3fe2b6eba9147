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
        spread = np.repeat([[errors.position], [errors.velocity], [errors.torque]], joints, axis=1)
        self._source = WhiteNoise(rng, spread) if spread.any() else None

    def draw(self) -> None:
        """New noise, for the readings up to the next draw."""
        if self._source is not None:
            self._noise = self._source.draw()

    def measure(self, truth: Vector) -> None:
        """Take a reading of the true positions, velocities and torques (rows)."""
        np.add(truth, self._noise, self.readings)


class Imu:
    """Attitude, rates and acceleration. The gyro's bias drifts, and heading drifts with it;
    roll and pitch do not, since the vendor's filter leans on gravity."""

    def __init__(self, errors: config.Imu, rng: np.random.Generator) -> None:
        self.readings = np.zeros(10)
        self.quaternion = self.readings[:4]
        self.gyroscope = self.readings[4:7]
        self.accelerometer = self.readings[7:]
        self._rates_and_forces = self.readings[4:]
        self._rng, self._drift = rng, errors.gyro_drift
        self._offset = np.zeros(6)  # of rates and forces
        self.bias = self._offset[:3]
        self.bias[:] = rng.standard_normal(3) * errors.gyro_bias
        self._turn = (1.0, 0.0)  # cosine and sine of half the heading error
        self._heading_error = 0.0
        self._perfect = errors == config.Imu()
        self._noise = WhiteNoise(rng, [errors.gyro] * 3 + [errors.accelerometer] * 3)

    def measure(self, quaternion: Vector, rate: Vector, acceleration: Vector) -> None:
        """Take one reading of body attitude (w, x, y, z), body rates and specific force."""
        self.gyroscope[:], self.accelerometer[:] = rate, acceleration
        if self._perfect:
            self.quaternion[:] = quaternion
            return
        np.add(self._rates_and_forces, self._noise.draw(), self._rates_and_forces)
        np.add(self._rates_and_forces, self._offset, self._rates_and_forces)
        w, x, y, z = quaternion.tolist()
        c, s = self._turn
        self.quaternion[:] = (c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w)

    def drift(self, seconds: float) -> None:
        """Let the bias walk on for a while, and the heading with it."""
        self.bias += self._rng.standard_normal(3) * (self._drift * math.sqrt(seconds))
        self._heading_error += float(self.bias[2]) * seconds
        self._turn = (math.cos(self._heading_error / 2), math.sin(self._heading_error / 2))
