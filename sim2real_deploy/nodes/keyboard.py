"""The keys of `sim2real teleop`: keys and the time in, a velocity and requests out.

Hold to run: a terminal does not report the release of a key, but repeats a key that is held. A key
counts until the terminal would have repeated it; then the robot stands still, and so it does when
the connection hangs.
"""

import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MOVES: dict[str, tuple[int, int]] = {  # key: axis, direction
    "w": (0, 1),
    "s": (0, -1),
    "q": (1, 1),
    "e": (1, -1),
    "a": (2, 1),
    "d": (2, -1),
}
REQUESTS = {"1": "stand", "2": "walk", "3": "sit", "0": "damp", "x": "estop"}
FASTER, SLOWER, REST = "+", "-", " "
FIRST_HOLD_S = 0.45  # most terminals start to repeat a key within this time
HOLD_S = 0.2  # and then repeat it at 10 Hz or more
SHARE_STEP = 0.1
HELP = (
    "hold to move: w/s forward, back   a/d turn left, right   q/e step left, right\n"
    "+/- faster, slower   space: rest   1 stand   2 walk   3 sit   0 damp   x emergency stop\n"
    "Ctrl-C leave"
)


@dataclass(slots=True)
class Keyboard:
    most: tuple[float, float, float]
    share: float = 0.5  # of the fastest velocity
    _held: dict[int, tuple[int, float]] = field(default_factory=dict)  # axis: direction, until

    def press(self, key: str, now_s: float) -> str | None:
        """Handle a key; returns the request that it stands for, if any."""
        key = key.lower()
        if key in MOVES:
            axis, way = MOVES[key]
            repeated = self._held.get(axis, (0, 0.0))[0] == way and self._moves(axis, now_s)
            self._held[axis] = way, now_s + (HOLD_S if repeated else FIRST_HOLD_S)
            return None
        if key in (FASTER, SLOWER):
            step = SHARE_STEP if key == FASTER else -SHARE_STEP
            self.share = round(min(max(self.share + step, SHARE_STEP), 1.0), 2)
        request = REQUESTS.get(key)
        if key == REST or request is not None:
            self._held.clear()
        return request

    def velocity(self, now_s: float) -> tuple[float, float, float]:
        vx, vy, wz = (
            self._held[axis][0] * self.share * most if self._moves(axis, now_s) else 0.0
            for axis, most in enumerate(self.most)
        )
        return vx, vy, wz

    def _moves(self, axis: int, now_s: float) -> bool:
        return axis in self._held and now_s <= self._held[axis][1]


@contextmanager
def raw_terminal() -> Iterator[int]:
    """Standard input with keys as they are pressed, without Enter; restored at the end."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
