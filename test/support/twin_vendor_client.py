"""The vendor's low-level stand example, on the vendor's SDK: a client that knows nothing of us.

Check mode, release mode, then LowCmd with CRC at 500 Hz: get up, hold, lie down. The SDK's wheel
ships neither its motion switcher client nor its CRC library, so those two are filled in here from
the SDK's own parts: its RPC client class, and the checksum written out as its C source has it.
"""

import json
import struct
import sys
import time
from typing import Any

from sim2real_deploy.wire import vendor

SIT = [0.0, 1.36, -2.65] * 4
STAND = [0.0, 0.67, -1.3] * 4
LIE = [-0.35, 1.36, -2.65, 0.35, 1.36, -2.65, -0.5, 1.36, -2.65, 0.5, 1.36, -2.65]


def crc(m: Any) -> int:
    """The C source's loop, bit by bit, over the message packed as the SDK packs it."""
    head = struct.pack("<BBBB", *m.head, m.level_flag, m.frame_reserve)
    head += struct.pack("<IIIIH2x", *m.sn, *m.version, m.bandwidth)
    motors = b"".join(
        struct.pack("<B3xfffffIII", c.mode, c.q, c.dq, c.tau, c.kp, c.kd, *c.reserve)
        for c in m.motor_cmd
    )
    tail = struct.pack("<4B", m.bms_cmd.off, *m.bms_cmd.reserve)
    tail += bytes(m.wireless_remote) + bytes(m.led) + bytes(m.fan)
    tail += struct.pack("<BxI", m.gpio, m.reserve)
    packed = head + motors + tail
    value = 0xFFFFFFFF
    for (word,) in struct.iter_unpack("<I", packed):
        value ^= word
        for _ in range(32):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
    return value


def release_sport_mode() -> str:
    client_class = vendor.module("rpc.client").Client
    client = client_class("motion_switcher", False)
    client.SetTimeout(5.0)
    client._SetApiVerson("1.0.0.1")
    for api in (1001, 1002, 1003):
        client._RegistApi(api, 0)
    found = None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        code, data = client._Call(1001, json.dumps({}))
        if code != 0:
            continue
        name = json.loads(data)["name"]
        found = name if found is None else found
        if not name:
            return str(found)
        client._Call(1003, json.dumps({}))
    raise SystemExit("the mode was not released")


def main(domain: int) -> None:
    channel = vendor.module("core.channel")
    types = vendor.module("idl.unitree_go.msg.dds_")
    low_cmd = vendor.module("idl.default").unitree_go_msg_dds__LowCmd_()
    channel.ChannelFactoryInitialize(domain, "lo")
    publisher = channel.ChannelPublisher("rt/lowcmd", types.LowCmd_)
    publisher.Init()
    latest: list[Any] = []
    subscriber = channel.ChannelSubscriber("rt/lowstate", types.LowState_)
    subscriber.Init(latest.append, 10)
    mode = release_sport_mode()
    while not latest:
        time.sleep(0.01)
    low_cmd.head[0], low_cmd.head[1], low_cmd.level_flag = 0xFE, 0xEF, 0xFF
    for motor in low_cmd.motor_cmd:
        motor.mode, motor.q, motor.dq = 0x01, 2.146e9, 16000.0

    def move(start: list[float], end: list[float], seconds: float) -> None:
        begin = time.monotonic()
        while (done := (time.monotonic() - begin) / seconds) < 1.0:
            for index in range(12):
                motor = low_cmd.motor_cmd[index]
                motor.q = (1 - done) * start[index] + done * end[index]
                motor.dq, motor.kp, motor.kd, motor.tau = 0.0, 60.0, 5.0, 0.0
            low_cmd.crc = crc(low_cmd)
            publisher.Write(low_cmd)
            time.sleep(0.002)

    def say() -> None:
        state = latest[-1]
        facts = {
            "force": [int(f) for f in state.foot_force],
            "ticks": [int(s.tick) for s in latest],
            "power_v": float(state.power_v),
            "mode": mode,
        }
        latest.clear()
        print(json.dumps(facts), flush=True)
        sys.stdin.readline()

    here = [float(m.q) for m in latest[-1].motor_state[:12]]
    move(here, SIT, 0.5)
    move(SIT, STAND, 1.0)
    move(STAND, STAND, 1.0)
    say()
    move(STAND, LIE, 1.5)
    move(LIE, LIE, 0.5)
    say()


if __name__ == "__main__":
    main(int(sys.argv[1]))
