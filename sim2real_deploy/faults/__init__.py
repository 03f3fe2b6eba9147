"""Breaks the running stack on purpose and times its reaction on the wire."""
