"""The supervisor as a process: its loop on the wire, and what it can do to control."""
