"""`sim2real bench walking`: a policy in the imperfect twin, command by command."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sim2real_deploy.cli import bench


@bench.command("walking")
def walking_command(
    policy: Annotated[str, typer.Argument(help="A name in policies/, or a bundle's folder.")],
    robot: Annotated[str, typer.Option(help="A name in config/robots.")] = "go2",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each trial.")] = 20,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    json: Annotated[Path | None, typer.Option(help="Write figures and checks here.")] = None,
    table: Annotated[Path | None, typer.Option(help="Write a Markdown table here.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="Draw the gait into this folder.")] = None,
) -> None:
    """Every command, pushes and worse conditions in the imperfect twin, over many seeds."""
    from rich.progress import track

    from sim2real_deploy import checks
    from sim2real_deploy.bench import walking
    from sim2real_deploy.bench.gait_pictures import gait_pictures
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.policy.contract import bundle_folder
    from sim2real_deploy.robots import load_robot

    folder = bundle_folder(policy)
    running = walking.evaluate(folder, robot, seeds, workers)
    rows = list(track(running, "trials", total=len(walking.TRIALS)))
    judged = walking.judge(rows)
    checks.print_table(f"{folder.name}, {seeds} seeds", judged)
    if json:
        named = [{**asdict(row), "trial": row.trial.name} for row in rows]
        checks.write_json(json, "bench walking", judged, {"rows": named})
    if table:
        table.write_text(walking.markdown(rows), encoding="utf-8")
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
        bundle = load_bundle(folder, load_robot(robot))
        gait_pictures(bundle, pictures / "gait_strip.png", pictures / "gait_feet.png")
    raise typer.Exit(checks.exit_code(judged))
