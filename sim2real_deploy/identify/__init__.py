"""From recordings to a twin: what this robot is, and how sure that is."""
