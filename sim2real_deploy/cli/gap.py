"""`sim2real gap`: how far a robot is from its simulator, and why."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sim2real_deploy.cli import app


@app.command("gap")
def gap(
    bags: Annotated[list[Path], typer.Argument(help="One bag, or several to see a trend.")],
    twin: Annotated[
        str, typer.Option(help="Twin to compare with: a name in config/twins, or a file.")
    ] = "default",
    policy: Annotated[
        str, typer.Option(help="Policy that walked, if the bag does not contain it.")
    ] = "",
    floor_friction: Annotated[
        float, typer.Option(min=0.05, max=2.0, help="Friction of the twin's floor.")
    ] = 0.8,
    html: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
) -> None:
    """Compare a recorded walk with the twin's: one number, the largest causes, what to do."""
    from dataclasses import replace

    from sim2real_deploy.analysis.gap.beliefs import beliefs_of
    from sim2real_deploy.analysis.gap.gap import measure_gap
    from sim2real_deploy.analysis.gap.page import headline, write_gap_page
    from sim2real_deploy.analysis.gap.together import put_together
    from sim2real_deploy.analysis.gap.walk import walk_of_bag
    from sim2real_deploy.analysis.policy_replay import bundle_of
    from sim2real_deploy.bags.recorded import Recorded
    from sim2real_deploy.checks import write_json
    from sim2real_deploy.policy.bundle import load_bundle
    from sim2real_deploy.policy.contract import bundle_folder
    from sim2real_deploy.twin.files import load_imperfections
    from sim2real_deploy.twin.floors import Floor

    found = []
    for path in bags:
        recorded = Recorded.open(path)
        spec = recorded.robot
        imperfections = load_imperfections(twin, spec.name)
        bundle = (
            load_bundle(bundle_folder(policy), spec) if policy else bundle_of(recorded.bag, spec)
        )
        stage = recorded.bag.information.get("stage") or "field"
        walk = walk_of_bag(recorded)
        result = measure_gap(walk, bundle, imperfections, Floor(friction=floor_friction), stage)
        result = replace(result, beliefs=tuple(beliefs_of(recorded, result.findings)))
        found.append(result)
        typer.echo(f"{walk.name}: {headline(result)}")
        for cause in result.causes:
            typer.echo(f"  {cause.words} ({cause.explains:.0%} of the gap): {cause.remedy}")
        for belief in result.beliefs:
            typer.echo(f"  believed while walking: {belief.words}")
    together = put_together(found)
    if together is not None and len(found) > 1:
        typer.echo(together.words())
        for difference in together.unlike:
            typer.echo(f"  still differs: {difference.words}")
    if html is not None:
        write_gap_page(html, found, twin, together)
        typer.echo(f"page: {html}")
    if json is not None:
        content: dict[str, Any] = {"twin": twin, "runs": [result.raw() for result in found]}
        if together is not None:
            content["together"] = together.raw()
        write_json(json, "gap", [], content)
