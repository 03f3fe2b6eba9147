"""The cable between robot and computer, for a campaign that pulls it.

A pair of virtual network interfaces: the robot's end is here, the computer's end in a network
namespace of its own where the stack's processes run. Made by this process and taken away by it.
"""

import os
import shutil
import subprocess

from sim2real_deploy.errors import Refusal

HERE, THERE = "10.219.77.1/30", "10.219.77.2/30"


def can_be_laid() -> bool:
    return os.geteuid() == 0 and shutil.which("ip") is not None


class Cable:
    """`interface` is the robot's end; a command prefixed with `prefix` runs at the other one."""

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
        """The pair of interfaces goes with the namespace."""
        subprocess.run(["ip", "netns", "delete", self._namespace], capture_output=True, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refusal(f"ip {' '.join(words)}: {done.stderr.strip()}")
