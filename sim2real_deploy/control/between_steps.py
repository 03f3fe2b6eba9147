"""When other threads of the control process should run: right after a policy step.

A thread that holds the interpreter's lock when a step is due, or takes it while onnxruntime, which
releases it, runs the network, delays the loop by several times the network's own run time; a thread
with the policy's period would do so in every step or in none, depending on how the two started.
"""

AFTER_STEP_S = 0.001  # the command is out by then


def between_steps(due_s: float, step_s: float, period_s: float) -> float:
    """The time nearest to `due_s` that lies whole periods after the end of the last step."""
    late_s = (due_s - step_s - AFTER_STEP_S) % period_s
    return due_s - late_s if late_s <= period_s / 2 else due_s - late_s + period_s
