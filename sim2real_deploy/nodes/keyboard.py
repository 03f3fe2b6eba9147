"""What the keys of `sim2real teleop` mean. Pure: keys in, a velocity and wishes out."""

from dataclasses import dataclass

STEP = (0.1, 0.1, 0.2)  # m/s, m/s, rad/s a press
MOVES: dict[str, tuple[int, int]] = {  # key: axis, direction
    "w": (0, 1),
    "s": (0, -1),
    "q": (1, 1),
    "e": (1, -1),
    "a": (2, 1),
    "d": (2, -1),
}
WISHES = {"1": "stand", "2": "walk", "3": "sit", "0": "damp", "x": "estop"}
REST = " "
HELP = (
    "w/s forward, back   a/d turn left, right   q/e step left, right   space: rest\n"
    "1 stand   2 walk   3 sit   0 damp   x emergency stop   Ctrl-C leave"
)


@dataclass(slots=True)
class Keyboard:
    most: tuple[float, float, float]
    vx: float = 0.0
    vy: float = 0.0
    wz: float = 0.0

    def press(self, key: str) -> str | None:
        """Change the velocity, or give the wish a key stands for; other keys do nothing."""
        key = key.lower()
        if key in MOVES:
            axis, way = MOVES[key]
            velocity = [self.vx, self.vy, self.wz]
            value = velocity[axis] + way * STEP[axis]
            velocity[axis] = round(min(max(value, -self.most[axis]), self.most[axis]), 3)
            self.vx, self.vy, self.wz = velocity
            return None
        wish = WISHES.get(key)
        if key == REST or wish is not None:
            self.vx = self.vy = self.wz = 0.0
        return wish
