"""The other workers of a run: processes on this computer, or tasks on a Ray cluster.

Worker 0 is the calling process. The others connect to it at the address they are given, work until
it ends, and write no files. The results do not depend on where a worker runs.
"""

import multiprocessing
import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

import psutil

from sim2real_deploy.gate.ray_cluster import join_cluster
from sim2real_deploy.runtime.parent import end_with_parent

Work = Callable[[int, str], None]  # what worker `rank` does, given the address; picklable
END_S = 20.0  # then workers that have not ended are killed
SHARED_CORE = 0.01  # cores that a worker asks Ray for when there are fewer cores than workers


class Crew(Protocol):
    @contextmanager
    def working(self, work: Work, count: int) -> Iterator[str]:
        """Run workers 1 to `count` - 1 meanwhile; gives the address at which they connect."""


class LocalCrew:
    """A process for each worker."""

    @contextmanager
    def working(self, work: Work, count: int) -> Iterator[str]:
        spawn = multiprocessing.get_context("spawn")
        with tempfile.TemporaryDirectory() as meeting:
            address = f"file://{meeting}/rendezvous"
            processes = [
                spawn.Process(
                    target=_local_worker, args=(work, rank, address, os.getpid()), daemon=True
                )
                for rank in range(1, count)
            ]
            for process in processes:
                process.start()
            try:
                yield address
            finally:
                for process in processes:
                    process.join(END_S)
                    if process.is_alive():
                        process.kill()
                        process.join()


def _local_worker(work: Work, rank: int, address: str, first: int) -> None:
    """Ctrl-C reaches every process of a terminal: worker 0 alone decides when to stop. `first` is
    the process of worker 0."""
    end_with_parent(first)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    work(rank, address)


class RayCrew:
    """A task for each worker, spread over the computers of a cluster."""

    def __init__(self, address: str) -> None:
        """Join the cluster at `address`; "local" starts one here."""
        self._lost = False  # perhaps with a computer: the rest may have fewer cores than workers
        self._ray = join_cluster(address)

    @contextmanager
    def working(self, work: Work, count: int) -> Iterator[str]:
        ray = self._ray
        here = ray.util.get_node_ip_address()
        address = f"tcp://{here}:{_free_port(here)}"
        _use_interface_of(here)
        enough = ray.cluster_resources().get("CPU", 0.0) >= count - 1
        cores = 1.0 if enough and not self._lost else SHARED_CORE
        self._lost = True  # a second call means that a worker was lost
        task = ray.remote(num_cpus=cores, max_retries=0, scheduling_strategy="SPREAD")(_ray_worker)
        running = [task.remote(work, rank, address) for rank in range(1, count)]
        try:
            yield address
        finally:
            if running:
                _, late = ray.wait(running, num_returns=len(running), timeout=END_S)
                for one in late:
                    ray.cancel(one, force=True)

    def close(self) -> None:
        self._ray.shutdown()


def _ray_worker(work: Work, rank: int, address: str) -> None:
    """In a process of the cluster."""
    ray: Any = import_module("ray")
    _use_interface_of(ray.util.get_node_ip_address())
    work(rank, address)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _use_interface_of(ip: str) -> None:
    """Tell gloo the interface with this address: by itself it takes what the host's name stands
    for, which on many systems is the loopback."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(one.address == ip for one in addresses):
            os.environ["GLOO_SOCKET_IFNAME"] = name
            return
