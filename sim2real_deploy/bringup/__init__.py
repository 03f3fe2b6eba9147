"""The node graph as data, and the two launchers that start it."""
