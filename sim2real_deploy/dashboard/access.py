"""Who may command from the page."""

import secrets

LOCAL = ("127.0.0.1", "localhost", "::1")


def page_token(given: str, host: str, real: bool) -> str:
    """The token a browser must send before it may command; "" where none is asked for.

    A twin's page on this machine needs none. Served wider, or in front of a real robot, where any
    other user of this machine could open the page, there is always one.
    """
    if given or (host in LOCAL and not real):
        return given
    return secrets.token_urlsafe(9)
