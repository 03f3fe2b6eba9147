"""A virtual cable between robot and computer, for a campaign that pulls it.

A veth pair: the robot's end is here, the computer's end in its own network namespace, where the
stack's processes run. This process creates and removes both.
"""

import os
import shutil
import subprocess

from sim2real_deploy.errors import Refusal

HERE, THERE = "10.219.77.1/30", "10.219.77.2/30"


def can_be_laid() -> bool:
    return os.geteuid() == 0 and shutil.which("ip") is not None


class Cable:
    """`interface` is the robot's end; commands prefixed with `prefix` run at the other."""

    def __init__(self) -> None:
        self._namespace = f"sim2real{os.getpid()}"
        self.interface, self.far_interface = f"s2r{os.getpid()}", "eth0"
        self.prefix = ("ip", "netns", "exec", self._namespace)
        _ip("netns", "add", self._namespace)
        try:
            far = ("peer", "name", self.far_interface, "netns", self._namespace)
            _ip("link", "add", self.interface, "type", "veth", *far)
            _ip("address", "add", HERE, "dev", self.interface)
            _ip("link", "set", self.interface, "up")
            for words in (
                ("address", "add", THERE, "dev", self.far_interface),
                ("link", "set", self.far_interface, "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", self._namespace, *words)
        except Refusal:
            self.close()
            raise

    def pull(self) -> None:
        _ip("link", "set", self.interface, "down")

    def plug_in(self) -> None:
        _ip("link", "set", self.interface, "up")

    def close(self) -> None:
        """Removing the namespace removes the pair."""
        subprocess.run(["ip", "netns", "delete", self._namespace], capture_output=True, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refusal(f"ip {' '.join(words)}: {done.stderr.strip()}")
