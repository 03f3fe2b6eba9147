"""Scenarios that a policy must pass before it may go on a robot."""
