"""`sim2real replay`: a recorded run again, into ROS, through a policy, or in the twin."""

from pathlib import Path
from typing import Any

import typer

from sim2real_deploy.cli import app
from sim2real_deploy.errors import Refusal


@app.command("replay")
def replay(
    bag: Path = typer.Argument(..., help="The bag: a directory or an .mcap file."),
    bundle: Path | None = typer.Argument(
        None, help="With --policy: another policy than the recorded one."
    ),
    policy: bool = typer.Option(
        False, "--policy", help="Replay the states through the policy: bit-identical?"
    ),
    twin: bool = typer.Option(
        False, "--twin", help="Replay the commands into the twin: how fast do they diverge?"
    ),
    rate: float = typer.Option(1.0, min=0.01, max=100, help="Into ROS: times real time."),
    start: float = typer.Option(0.0, min=0, help="Seconds into the bag to start at."),
    loop: bool = typer.Option(False, "--loop", help="Into ROS: repeat."),
    seconds: float = typer.Option(60.0, min=0.1, help="With --twin: how much of the recording."),
    window: float = typer.Option(
        1.0, min=0.02, help="With --twin: seconds between restarts from the recorded state."
    ),
    preset: str = typer.Option("default", help="With --twin: twin preset, a name in config/twins."),
    json: Path | None = typer.Option(None, help="Write the figures to this file."),
) -> None:
    """Play a run into ROS (space pauses); with --policy or --twin, compare it with a replay."""
    if policy and twin:
        raise Refusal("--policy and --twin are two different replays: one at a time")
    if bundle is not None and not policy:
        raise Refusal(f"'{bundle}': a policy is given without --policy")
    if policy:
        _through_policy(bag, bundle, json)
    elif twin:
        _in_twin(bag, start, seconds, window, preset, json)
    else:
        _into_ros(bag, rate, start, loop)


def _into_ros(bag: Path, rate: float, start: float, loop: bool) -> None:
    from sim2real_deploy.bags import Bag
    from sim2real_deploy.bringup.graph import Process
    from sim2real_deploy.bringup.node_process import become

    Bag(bag)  # refuses here, before a node starts
    become(
        Process("replay", {"bag": str(bag.resolve()), "rate": rate, "start": start, "loop": loop})
    )


def _through_policy(path: Path, bundle: Path | None, json: Path | None) -> None:
    from sim2real_deploy.analysis.policy_replay import replay_policy
    from sim2real_deploy.bags.recorded import Recorded
    from sim2real_deploy.checks import exit_code, print_table, write_json
    from sim2real_deploy.policy.bundle import load_bundle

    recorded = Recorded.open(path)
    other = load_bundle(bundle, recorded.robot) if bundle is not None else None
    result = replay_policy(recorded, other)
    by_joint = zip(result.joint_names, result.target_rms, result.target_max, strict=True)
    joints = {n: {"rms_rad": float(rms), "max_rad": float(most)} for n, rms, most in by_joint}
    checks = result.checks()
    print_table(f"replay of {path.name} through the policy", checks)
    typer.echo(
        f"{result.steps} policy steps, {result.recorded_s:.1f} s of walking in "
        f"{result.replay_s:.1f} s: {result.speed:.0f} times real time"
    )
    if result.first is not None:
        typer.echo(f"first difference: {result.first}")
    elif result.same_policy and not result.values_different:
        typer.echo("identical, bit for bit")
    elif not result.same_policy:
        typer.echo("joint targets of this policy against the recorded one's, rms and largest, rad:")
        for name, row in joints.items():
            typer.echo(f"  {name:<20} {row['rms_rad']:8.4f} {row['max_rad']:8.4f}")
    if json is not None:
        first = None if result.first is None else str(result.first)
        raw = {"bag": str(path), "first_difference": first, "joints": joints}
        write_json(json, "replay --policy", checks, {**raw, "speed": result.speed})
    raise typer.Exit(exit_code(checks))


def _in_twin(
    path: Path, start: float, seconds: float, window: float, preset: str, json: Path | None
) -> None:
    import numpy as np

    from sim2real_deploy.analysis.twin_replay import HORIZONS_S, replay_in_twin
    from sim2real_deploy.bags.recorded import Recorded
    from sim2real_deploy.checks import write_json
    from sim2real_deploy.twin.files import load_imperfections

    recorded = Recorded.open(path)
    twin = load_imperfections(preset, recorded.robot.name)
    result = replay_in_twin(recorded, twin, start_s=start, seconds=seconds, window_s=window)
    raw: dict[str, Any] = {"bag": str(path), "preset": preset}
    raw |= {"seconds": result.seconds, "window_s": window}
    for title, errors in (
        (f"{result.windows} windows of {window:g} s", result.windowed),
        ("open loop", result.open_loop),
    ):
        horizons = [h for h in HORIZONS_S if h <= errors.seconds[-1]]
        typer.echo(f"\n{title}: twin against recording after ...")
        typer.echo(f"{'':<22}" + "".join(f"{h:>9g} s" for h in horizons))
        at = [errors.at(h) for h in horizons]
        rows = dict(zip(result.joint_names, errors.joints[at].T.tolist(), strict=True))
        rows["all joints, rms"] = np.sqrt(np.mean(errors.joints[at] ** 2, axis=1)).tolist()
        for name, values in rows.items():
            typer.echo(f"{name:<18} rad" + "".join(f"{value:11.4f}" for value in values))
        tilt, speed = errors.tilt[at].tolist(), errors.velocity[at].tolist()
        typer.echo(f"{'tilt of the trunk':<18} deg" + "".join(f"{value:11.3f}" for value in tilt))
        typer.echo(f"{'its velocity':<18} m/s" + "".join(f"{value:11.3f}" for value in speed))
        parted = errors.parted_after_s
        told = f"after {parted:.2f} s" if np.isfinite(parted) else "not at all"
        typer.echo(f"parted (0.1 rad or 5 degrees): {told}")
        raw[title] = {"horizons_s": horizons, "rad": rows, "tilt_deg": tilt}
        raw[title] |= {"velocity_m_s": speed, "parted": told}
    if json is not None:
        write_json(json, "replay --twin", [], raw)
