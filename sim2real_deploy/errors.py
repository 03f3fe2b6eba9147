"""The exception for a user's mistake: shown as text, never as a traceback."""


class Refusal(Exception):
    """What was wrong, where, and what to do. The command line prints it and exits with 2."""
