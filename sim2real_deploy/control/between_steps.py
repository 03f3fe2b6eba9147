"""When other threads of the loop's process may work: right after a step of the policy.

While a network runs it leaves the interpreter's lock to whoever wants it. A thread that takes it
then keeps the loop waiting for several times as long as the network runs, and one whose period is
the policy's own does so in every step, or in none, as they happened to start.
"""

AFTER_STEP_S = 0.001  # the command is out by then


def between_steps(due_s: float, step_s: float, period_s: float) -> float:
    """The moment nearest to `due_s` that is whole periods away from just after the last step."""
    late_s = (due_s - step_s - AFTER_STEP_S) % period_s
    return due_s - late_s if late_s <= period_s / 2 else due_s - late_s + period_s
