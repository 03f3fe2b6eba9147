"""The vendor's fixed-size messages, as its IDL declares them, and each family's constants.

Source: unitree_go and unitree_hg IDL of unitree_sdk2; constants from its low-level examples.
"""

from dataclasses import dataclass, field

from sim2real_deploy.wire.layout import Layout, Member

U8, I16, U16, I32, U32, F32 = "u1", "<i2", "<u2", "<i4", "<u4", "<f4"
REMOTE_BYTES = 40
LOW_STATE, LOW_CMD = "rt/lowstate", "rt/lowcmd"  # topics
# Field names in the messages, in this package's order.
PD = ("q", "dq", "tau", "kp", "kd")
MOTION = ("q", "dq", "ddq", "tau_est")
IMU = ("imu_state.quaternion", "imu_state.gyroscope", "imu_state.accelerometer")
POWER = ("power_v", "power_a")


def _imu(temperature: str) -> Member:
    return Member(
        "imu_state",
        (
            Member("quaternion", F32, 4),
            Member("gyroscope", F32, 3),
            Member("accelerometer", F32, 3),
            Member("rpy", F32, 3),
            Member("temperature", temperature),
        ),
    )


_PD = (
    Member("mode", U8),
    Member("q", F32),
    Member("dq", F32),
    Member("tau", F32),
    Member("kp", F32),
    Member("kd", F32),
)
_MOTION = (
    Member("mode", U8),
    Member("q", F32),
    Member("dq", F32),
    Member("ddq", F32),
    Member("tau_est", F32),
)
_GO_HEAD = (
    Member("head", U8, 2),
    Member("level_flag", U8),
    Member("frame_reserve", U8),
    Member("sn", U32, 2),
    Member("version", U32, 2),
    Member("bandwidth", U16),
)

GO_LOW_CMD = Layout(
    "unitree_go::msg::dds_::LowCmd_",
    (
        *_GO_HEAD,
        Member("motor_cmd", (*_PD, Member("reserve", U32, 3)), 20),
        Member("bms_cmd", (Member("off", U8), Member("reserve", U8, 3))),
        Member("wireless_remote", U8, REMOTE_BYTES),
        Member("led", U8, 12),
        Member("fan", U8, 2),
        Member("gpio", U8),
        Member("reserve", U32),
        Member("crc", U32),
    ),
)

GO_LOW_STATE = Layout(
    "unitree_go::msg::dds_::LowState_",
    (
        *_GO_HEAD,
        _imu(U8),
        Member(
            "motor_state",
            (
                *_MOTION,
                Member("q_raw", F32),
                Member("dq_raw", F32),
                Member("ddq_raw", F32),
                Member("temperature", U8),
                Member("lost", U32),
                Member("reserve", U32, 2),
            ),
            20,
        ),
        Member(
            "bms_state",
            (
                Member("version_high", U8),
                Member("version_low", U8),
                Member("status", U8),
                Member("soc", U8),
                Member("current", I32),
                Member("cycle", U16),
                Member("bq_ntc", U8, 2),
                Member("mcu_ntc", U8, 2),
                Member("cell_vol", U16, 15),
            ),
        ),
        Member("foot_force", I16, 4),
        Member("foot_force_est", I16, 4),
        Member("tick", U32),
        Member("wireless_remote", U8, REMOTE_BYTES),
        Member("bit_flag", U8),
        Member("adc_reel", F32),
        Member("temperature_ntc1", U8),
        Member("temperature_ntc2", U8),
        Member("power_v", F32),
        Member("power_a", F32),
        Member("fan_frequency", U16, 4),
        Member("reserve", U32),
        Member("crc", U32),
    ),
)

HG_LOW_CMD = Layout(
    "unitree_hg::msg::dds_::LowCmd_",
    (
        Member("mode_pr", U8),
        Member("mode_machine", U8),
        Member("motor_cmd", (*_PD, Member("reserve", U32)), 35),
        Member("reserve", U32, 4),
        Member("crc", U32),
    ),
)

HG_LOW_STATE = Layout(
    "unitree_hg::msg::dds_::LowState_",
    (
        Member("version", U32, 2),
        Member("mode_pr", U8),
        Member("mode_machine", U8),
        Member("tick", U32),
        _imu(I16),
        Member(
            "motor_state",
            (
                *_MOTION,
                Member("temperature", I16, 2),
                Member("vol", F32),
                Member("sensor", U32, 2),
                Member("motorstate", U32),
                Member("reserve", U32, 4),
            ),
            35,
        ),
        Member("wireless_remote", U8, REMOTE_BYTES),
        Member("reserve", U32, 4),
        Member("crc", U32),
    ),
)

SPORT_MODE_STATE = Layout(
    "unitree_go::msg::dds_::SportModeState_",
    (
        Member("stamp", (Member("sec", I32), Member("nanosec", U32))),
        Member("error_code", U32),
        _imu(U8),
        Member("mode", U8),
        Member("progress", F32),
        Member("gait_type", U8),
        Member("foot_raise_height", F32),
        Member("position", F32, 3),
        Member("body_height", F32),
        Member("velocity", F32, 3),
        Member("yaw_speed", F32),
        Member("range_obstacle", F32, 4),
        Member("foot_force", I16, 4),
        Member("foot_position_body", F32, 12),
        Member("foot_speed_body", F32, 12),
        Member(
            "path_point",
            tuple(Member(n, F32) for n in ("t_from_start", "x", "y", "yaw", "vx", "vy", "vyaw")),
            10,
        ),
    ),
)

WIRELESS_CONTROLLER = Layout(
    "unitree_go::msg::dds_::WirelessController_",
    (*(Member(stick, F32) for stick in ("lx", "ly", "rx", "ry")), Member("keys", U16)),
)


@dataclass(frozen=True, slots=True)
class Family:
    """One generation of the protocol: its two messages and the constants of a command."""

    state: Layout
    command: Layout
    constants: dict[str, object] = field(default_factory=dict)  # header fields of both messages
    unused_mode: int = 0  # motor mode in slots without a joint
    unused_q: float = 0.0
    unused_dq: float = 0.0
    echoed: str = ""  # a state field that every command must repeat


FAMILIES = {
    "go": Family(
        state=GO_LOW_STATE,
        command=GO_LOW_CMD,
        constants={"head": (0xFE, 0xEF), "level_flag": 0xFF},
        unused_mode=1,
        unused_q=2.146e9,  # "no position", "no velocity" to the motor boards
        unused_dq=16000.0,
    ),
    "hg": Family(state=HG_LOW_STATE, command=HG_LOW_CMD, echoed="mode_machine"),
}
