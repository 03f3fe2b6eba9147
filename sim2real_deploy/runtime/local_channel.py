"""A datagram channel between two processes of one robot on one machine: no network, no discovery.

Both ends are Unix sockets in a run directory that only this user can enter. Its name contains the
ROS namespace and the vendor domain, so two robots (or two twins) never mix.
"""

import errno
import fcntl
import os
import re
import socket
import struct
from pathlib import Path

from sim2real_deploy.errors import Refusal

MAX_DATAGRAM = 4096
MOST_RECEIVED = 64  # datagrams in one call: the other end must not be able to keep us there
_PATH_LIMIT = 107  # bytes of a Unix socket's address


def run_directory(namespace: str, domain: int) -> Path:
    """The run directory of one robot, created with mode 0700 if missing."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(base) if base and os.access(base, os.W_OK) else Path(f"/tmp/run-{os.getuid()}")
    robot = re.sub(r"[^A-Za-z0-9]+", "-", namespace).strip("-") or "root"
    directory = root / "sim2real_deploy" / f"{robot}-{domain}"
    for folder in (root, directory.parent, directory):
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.stat()
        if state.st_uid != os.getuid():
            raise Refusal(f"{folder}: belongs to another user; remove it or set XDG_RUNTIME_DIR")
        if folder is not root and state.st_mode & 0o077:
            raise Refusal(f"{folder}: other users may enter it; `chmod 700 {folder}`")
    return directory


class LocalChannel:
    """One end, bound to its own name; sends to the other end's name. Never blocks."""

    def __init__(self, directory: Path, own: str, peer: str) -> None:
        self._path = directory / f"{own}.sock"
        self._peer = str(directory / f"{peer}.sock")
        for path in (str(self._path), self._peer):
            if len(os.fsencode(path)) > _PATH_LIMIT:
                raise Refusal(f"{path}: too long for a Unix socket; set XDG_RUNTIME_DIR shorter")
        self._lock = os.open(directory / f"{own}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._bind(own)

    def _bind(self, own: str) -> None:
        address = str(self._path)
        previous_mask = os.umask(0o177)
        try:
            if not self._alone() or _somebody_listens(address):
                raise Refusal(f"{address}: another '{own}' process is running; end it first")
            self._path.unlink(missing_ok=True)  # left behind by a killed process
            self._socket.bind(address)
        except BaseException:
            self._socket.close()
            os.close(self._lock)
            raise
        finally:
            os.umask(previous_mask)

    def _alone(self) -> bool:
        """Until this process ends, it alone has the name: of two that start in one moment, each
        would find nobody who listens, and take the other's socket away."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def send(self, datagram: bytes) -> bool:
        """Returns False if the peer is not running or its queue is full."""
        try:
            self._socket.sendto(datagram, self._peer)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.EAGAIN, errno.ENOBUFS):
                return False
            raise
        return True

    def receive(self) -> list[bytes]:
        """The datagrams since the last call, oldest first, at most MOST_RECEIVED."""
        datagrams: list[bytes] = []
        while len(datagrams) < MOST_RECEIVED:
            try:
                datagrams.append(self._socket.recv(MAX_DATAGRAM))
            except BlockingIOError:
                break
        return datagrams

    @property
    def peer_address(self) -> bytes:
        """Of the other end, as the C library takes it: a sockaddr_un."""
        return struct.pack("=H", socket.AF_UNIX) + os.fsencode(self._peer) + b"\0"

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._socket.close()
        self._path.unlink(missing_ok=True)
        os.close(self._lock)

    def __enter__(self) -> "LocalChannel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _somebody_listens(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True
