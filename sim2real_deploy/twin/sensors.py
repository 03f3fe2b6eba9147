"""The robot's sensors: encoders and IMU, with their errors."""

import math

import numpy as np
import numpy.typing as npt

from sim2real_deploy.robots import RobotSpec
from sim2real_deploy.robots.state import Floats
from sim2real_deploy.twin import config
from sim2real_deploy.twin.kernels import read_imu
from sim2real_deploy.twin.per_joint import per_joint

Vector = npt.NDArray[np.float64]
_NOISE_ROWS = 64  # drawn at a time: few enough to stay in the cache


class WhiteNoise:
    """Arrays of Gaussian noise, each entry with its own mean and deviation. It is drawn in blocks,
    because calling the generator in every step is slow."""

    def __init__(
        self, rng: np.random.Generator, spread: npt.ArrayLike, mean: npt.ArrayLike = 0.0
    ) -> None:
        self._rng = rng
        self._spread = np.asarray(spread, np.float64)
        self._mean = np.array(mean, np.float64)
        self._drawn: list[Vector] = []

    def draw(self) -> Vector:
        if not self._drawn:
            block = self._rng.standard_normal((_NOISE_ROWS, *self._spread.shape))
            self._drawn = list(block * self._spread + self._mean)
        return self._drawn.pop()


class EncoderModel:
    """Joint positions, velocities, accelerations and torques as the boards measure them.

    They are written into `readings` (rows in that order), which is the message itself.
    """

    def __init__(
        self,
        robot: RobotSpec,
        readings: Floats,
        errors: config.Encoders,
        rng: np.random.Generator,
    ) -> None:
        joints = robot.joint_count
        self.readings = readings
        self.q_and_dq = readings[:2]
        self.offset = per_joint(errors.offset, robot, "encoders.offset")
        self.gains = np.ones((4, joints))  # reading over true value, rows as in `readings`
        self.speed_gain, self.torque_gain = self.gains[1], self.gains[3]
        self.speed_gain[:] = per_joint(errors.speed_gain, robot, "encoders.speed_gain")
        self.torque_gain[:] = per_joint(errors.torque_gain, robot, "encoders.torque_gain")
        self.noise: Vector = np.zeros((4, joints))  # error of each reading until the next draw
        self.noise[0] = self.offset
        self.noise[1] = per_joint(errors.speed_offset, robot, "encoders.speed_offset")
        spread = np.array([[errors.position], [errors.velocity], [0.0], [errors.torque]])
        wide = np.repeat(spread, joints, axis=1)
        self._source = WhiteNoise(rng, wide, self.noise) if spread.any() else None

    def draw(self) -> None:
        """New noise, for the readings up to the next draw."""
        if self._source is not None:
            self.noise = self._source.draw()


class ImuModel:
    """Attitude, rates and acceleration. The gyro's bias drifts, and the heading with it; roll and
    pitch do not, because the vendor's filter uses gravity."""

    def __init__(self, errors: config.Imu, rng: np.random.Generator) -> None:
        self._rng, self._drift = rng, errors.gyro_drift
        self.bias = rng.standard_normal(3) * errors.gyro_bias
        self._heading_error = 0.0
        self._turn = np.array((1.0, 0.0))  # cosine and sine of half the heading error
        self._noise = WhiteNoise(rng, [errors.gyro] * 3 + [errors.accelerometer] * 3)
        self.readings = np.zeros(10)
        self.quaternion, self.gyroscope, self.accelerometer = np.split(self.readings, (4, 7))

    def measure(self, quaternion: Vector, rate: Vector, acceleration: Vector) -> None:
        """Take one reading of body attitude (w, x, y, z), body rates and specific force."""
        noise = self._noise.draw()
        read_imu(quaternion, rate, acceleration, noise, self.bias, self._turn, self.readings)

    def drift(self, seconds: float) -> None:
        """Advance the random walk of the bias, and the heading with it."""
        self.bias += self._rng.standard_normal(3) * (self._drift * math.sqrt(seconds))
        self._heading_error += float(self.bias[2]) * seconds
        self._turn[:] = math.cos(self._heading_error / 2), math.sin(self._heading_error / 2)
