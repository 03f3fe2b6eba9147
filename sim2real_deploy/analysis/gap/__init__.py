"""How far a robot is from its simulator, and why."""
