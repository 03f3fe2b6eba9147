"""A remote or gamepad: its sticks command a velocity, its chords request a mode."""

from sim2real_deploy.control.lease import REMOTE, Source
from sim2real_deploy.control.modes import ModeRequest
from sim2real_deploy.control.pad_map import STOP_CHORD, Axis, PadMap
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.wire.remote import Remote


class Pad:
    """Moved sticks claim the velocity lease; at rest they let it run out."""

    def __init__(self, velocity: VelocityCommand, mapping: PadMap, source: Source = REMOTE) -> None:
        self._velocity = velocity
        self._source = source
        self._mapping = mapping
        self._axes = (mapping.axes.vx, mapping.axes.vy, mapping.axes.wz)
        # The stop comes first, then the chord with the most buttons: L2+A before A.
        requests = mapping.requests.items()
        self._chords = sorted(requests, key=lambda item: (item[0] != STOP_CHORD, -len(item[0])))
        self._pressed: frozenset[str] = frozenset()
        self._moving = False

    def update(self, held: Remote, now_ns: int) -> ModeRequest | None:
        """Offer the sticks' velocity; returns a chord's request, once, when it is pressed. Of one
        that is off, or whose bytes are not a remote's, only the stop counts."""
        if not held.on:
            held = Remote(on=False, pressed=held.pressed & STOP_CHORD)
        sticks = [self._deflection(axis, held) for axis in self._axes]
        dead_man = self._mapping.dead_man
        moving = any(sticks) and (not dead_man or dead_man in held.pressed)
        if moving or self._moving:
            share = sticks if moving else [0.0, 0.0, 0.0]
            most = self._velocity.most
            vx, vy, wz = (s * m for s, m in zip(share, most, strict=True))
            self._velocity.offer(vx, vy, wz, now_ns, self._source)
        self._moving = moving
        before, self._pressed = self._pressed, held.pressed
        for chord, request in self._chords:
            if chord <= held.pressed and not chord <= before:
                return request
        return None

    def _deflection(self, axis: Axis | None, held: Remote) -> float:
        if axis is None:
            return 0.0
        stick: float = getattr(held, axis.stick)
        zone = self._mapping.dead_zone
        if abs(stick) < zone:
            return 0.0
        return axis.share * (stick - zone if stick > 0 else stick + zone) / (1.0 - zone)
