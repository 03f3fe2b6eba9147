"""Finding a DDS domain that is free on this machine."""

import random
from pathlib import Path

from sim2real_deploy.errors import Refusal

PORTS = 250  # per domain, from 7400 on
HIGHEST = 100  # above it, a domain's ports overlap the ephemeral port range


def free_domain() -> int:
    """A random domain with none of its UDP ports in use, so that two runs never meet."""
    in_use = set()
    for table in (Path("/proc/net/udp"), Path("/proc/net/udp6")):
        if table.exists():
            rows = table.read_text().splitlines()[1:]
            in_use |= {int(row.split()[1].split(":")[1], 16) for row in rows}
    ports = {
        domain: range(7400 + PORTS * domain, 7400 + PORTS * (domain + 1))
        for domain in range(1, HIGHEST + 1)
    }
    free = [domain for domain, its_ports in ports.items() if in_use.isdisjoint(its_ports)]
    if not free:
        raise Refusal("no free DDS domain on this machine: end some of the running stacks")
    return random.choice(free)
