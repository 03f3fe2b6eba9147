"""What identification leaves unexplained, learnt from the same recordings: actuator networks and
delta actions."""
