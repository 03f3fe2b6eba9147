"""A hand-held controller, the robot's own or a gamepad: sticks become a velocity, chords a wish."""

from sim2real_deploy.control.lease import REMOTE, Source
from sim2real_deploy.control.modes import Event
from sim2real_deploy.control.velocity_command import VelocityCommand
from sim2real_deploy.wire.remote import Remote

DEAD_ZONE = 0.08
# L2+B is the vendor's own chord for damping; the others keep to its habits.
CHORDS: tuple[tuple[frozenset[str], Event], ...] = (
    (frozenset({"L2", "B"}), Event.DAMP),
    (frozenset({"L2", "A"}), Event.STAND),
    (frozenset({"L2", "X"}), Event.SIT),
    (frozenset({"start"}), Event.WALK),
)


class Pad:
    """Sticks that are moved hold the lease; at rest they let go of it."""

    def __init__(
        self, velocity: VelocityCommand, source: Source = REMOTE, dead_man: str = ""
    ) -> None:
        self._velocity = velocity
        self._source = source
        self._dead_man = dead_man  # a button that must be held for the sticks to count
        self._pressed: frozenset[str] = frozenset()
        self._moving = False

    def update(self, held: Remote, now_ns: int) -> Event | None:
        """Offer the sticks' velocity; the wish of a chord, once, when it is pressed."""
        sticks = [_outside_dead_zone(s) for s in (held.ly, -held.lx, -held.rx)]
        moving = any(sticks) and (not self._dead_man or self._dead_man in held.pressed)
        if moving or self._moving:
            share = sticks if moving else [0.0, 0.0, 0.0]
            most = self._velocity.most
            vx, vy, wz = (s * m for s, m in zip(share, most, strict=True))
            self._velocity.offer(vx, vy, wz, now_ns, self._source)
        self._moving = moving
        before, self._pressed = self._pressed, held.pressed
        for chord, event in CHORDS:
            if chord <= held.pressed and not chord <= before:
                return event
        return None


def _outside_dead_zone(stick: float) -> float:
    if abs(stick) < DEAD_ZONE:
        return 0.0
    return (stick - DEAD_ZONE if stick > 0 else stick + DEAD_ZONE) / (1.0 - DEAD_ZONE)
