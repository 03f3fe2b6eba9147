"""Stores the gate's result in the bundle, where a launch on a real robot looks for it."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from sim2real_deploy import __version__
from sim2real_deploy.gate.record import (
    GateRecord,
    GateRow,
    save_record,
    sha256_of,
)
from sim2real_deploy.gate.scenarios import load_scenarios
from sim2real_deploy.gate.verdict import Row
from sim2real_deploy.policy.bundle import Bundle


def store_rows(bundle: Bundle, rows: Sequence[Row], threshold: float, engine: str) -> Path:
    """`engine` is the one whose rows are judged."""
    scenarios = {scenario.name: scenario for scenario in load_scenarios()}
    record = GateRecord(
        policy=bundle.contract.name,
        sha256=bundle.contract.sha256,
        contract=sha256_of(bundle.folder / "policy.yaml"),
        robot=bundle.spec.name,
        version=__version__,
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S}",
        threshold=threshold,
        engine=engine,
        rows=tuple(
            GateRow(
                scenario=row.scenario,
                content=scenarios[row.scenario].digest(bundle.spec.name),
                engine=row.engine,
                runs=row.runs,
                successes=row.successes,
                interval=row.interval,
                flags=row.flags,
            )
            for row in rows
        ),
    )
    return save_record(bundle.folder, record)
