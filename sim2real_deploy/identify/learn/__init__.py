"""What physics leaves over, learnt from the same recordings: actuator networks, delta actions."""
