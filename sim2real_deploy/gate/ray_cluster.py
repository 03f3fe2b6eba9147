"""Joining a Ray cluster, or starting one on this computer."""

import os
from importlib import import_module
from typing import Any

from sim2real_deploy.errors import Refusal
from sim2real_deploy.paths import to_install


def join_cluster(address: str) -> Any:
    """The `ray` module, connected to the cluster at `address`; "local" starts one here."""
    try:
        ray: Any = import_module("ray")
    except ImportError:
        raise Refusal(f"--ray needs Ray: {to_install('ray')}") from None
    if ray.is_initialized():
        return ray
    local = address == "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's own default is 15: beside other work its workers would hardly run.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False if local else None)
    except (ConnectionError, ValueError, RuntimeError) as error:
        why = str(error).splitlines()[0]
        raise Refusal(f"--ray {address}: no cluster answers there: {why}") from None
    return ray
