"""The one exception that a user's mistake becomes: shown as its text, never as a traceback."""


class Refusal(Exception):
    """What was wrong, where, and what to do. The command line prints it and exits with 2."""
