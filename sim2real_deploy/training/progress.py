"""Progress of a run: a live table on a terminal, else a line now and then, and a plot."""

import importlib.util
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from sim2real_deploy.errors import Refusal
from sim2real_deploy.training.checkpoint import LOG
from sim2real_deploy.training.trainer import Figures, Report

LINE_EVERY_S = 10.0
SMOOTHING = 0.95  # of noisy figures, per iteration


class _Average:
    """Exponential moving averages by name."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def __call__(self, name: str, value: float) -> float:
        before = self._values.get(name, value)
        self._values[name] = SMOOTHING * before + (1 - SMOOTHING) * value
        return self._values[name]


@contextmanager
def reporting(console: Console, folder: Path) -> Iterator[Report]:
    """A report function for `train`: shows each iteration, logs to TensorBoard and W&B."""
    average = _Average()
    boards = [board for board in (_tensorboard(folder), _wandb(folder)) if board is not None]
    last_line = -LINE_EVERY_S
    with Live(console=console, auto_refresh=False) as live:

        def report(figures: Figures) -> None:
            nonlocal last_line
            for board in boards:
                board(figures)
            table = _table(figures, average)
            now = time.monotonic()
            if console.is_terminal:
                live.update(table, refresh=True)
            elif now - last_line >= LINE_EVERY_S or figures["done"] >= 1:
                last_line = now
                console.print(_line(figures), soft_wrap=True)

        yield report


def _left(figures: Figures) -> str:
    seconds = figures["session_seconds"] * (1 - figures["done"]) / max(figures["progress"], 1e-6)
    return f"{seconds / 60:.1f} min left"


def _line(figures: Figures) -> str:
    return (
        f"{figures['done']:4.0%}  {figures['steps'] / 1e6:.2f} M steps  "
        f"{figures['steps_per_s']:.0f}/s  reward {figures['reward']:.2f}  "
        f"error {figures['error_v']:.3f} m/s {figures['error_w']:.3f} rad/s  "
        f"falls {figures['fell']:.0f}/{figures['episodes']:.0f}  "
        f"randomisation {figures['width']:.0%}  {_levels(figures)}  "
        f"{_left(figures)}"
    )


def _levels(figures: Figures) -> str:
    levels = ((name, value) for name, value in figures["terrain"].items() if name != "flat")
    return " ".join(f"{name} {value:.1f}" for name, value in levels)


def _table(figures: Figures, average: _Average) -> Table:
    table = Table(
        title=f"{figures['done']:.0%} done, {_left(figures)}", title_justify="left", box=None
    )
    for column in ("", "value", "reward by term", "per second"):
        table.add_column(column, justify="right" if column in ("value", "per second") else "left")
    fall_share = average("fell", figures["fell"]) / max(average("ended", figures["episodes"]), 1e-6)
    rows = [
        ("control steps", f"{figures['steps'] / 1e6:.2f} M"),
        ("steps/s", f"{average('rate', figures['steps_per_s']):.0f}"),
        ("reward", f"{average('reward', figures['reward']):.2f}"),
        ("velocity error", f"{average('error_v', figures['error_v']):.3f} m/s"),
        ("turning error", f"{average('error_w', figures['error_w']):.3f} rad/s"),
        ("episodes that fall", f"{fall_share:.0%}"),
        ("randomisation width", f"{figures['width']:.0%}"),
        *((f"level of {n}", f"{v:.1f}") for n, v in figures["terrain"].items() if n != "flat"),
        ("action spread", f"{figures['std']:.2f}"),
        ("learning rate", f"{figures['rate']:.1e}"),
    ]
    terms = [(name, f"{average(name, value):+.3f}") for name, value in figures["rewards"].items()]
    for i in range(max(len(rows), len(terms))):
        left = rows[i] if i < len(rows) else ("", "")
        right = terms[i] if i < len(terms) else ("", "")
        table.add_row(*left, *right)
    return table


def _tensorboard(folder: Path) -> Report | None:
    if importlib.util.find_spec("tensorboard") is None:
        return None
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def report(figures: Figures) -> None:
        for name, value in _flat(figures).items():
            writer.add_scalar(name, value, figures["steps"])

    return report


def _wandb(folder: Path) -> Report | None:
    """Weights & Biases, where it is installed and switched on (WANDB_MODE or WANDB_API_KEY)."""
    if importlib.util.find_spec("wandb") is None:
        return None
    if not (os.environ.get("WANDB_MODE") or os.environ.get("WANDB_API_KEY")):
        return None
    wandb: Any = importlib.import_module("wandb")
    run = wandb.init(
        project="sim2real", name="/".join(folder.parts[-2:]), dir=str(folder), resume="allow"
    )

    def report(figures: Figures) -> None:
        run.log(_flat(figures), step=figures["steps"])
        if figures["done"] >= 1:
            run.finish()

    return report


def _flat(figures: Figures) -> dict[str, float]:
    flat = {f"reward/{name}": value for name, value in figures["rewards"].items()}
    flat |= {f"terrain/{name}": value for name, value in figures["terrain"].items()}
    return flat | {n: value for n, value in figures.items() if n not in ("rewards", "terrain")}


def read_log(folder: Path) -> list[Figures]:
    path = folder / LOG
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise Refusal(f"{path}: not the log of a run: {error}") from None


def plot(folder: Path, picture: Path) -> None:
    """The whole run in one picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    log = read_log(folder)
    minutes = [row["seconds"] / 60 for row in log]
    panels: list[tuple[str, list[str]]] = [
        ("reward per second", ["reward"]),
        ("error (m/s, rad/s)", ["error_v", "error_w"]),
        ("randomisation width (0-1), action spread", ["width", "std"]),
    ]
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.5), layout="constrained")
    for axis, (title, names) in zip(axes.flat, panels, strict=False):
        for name in names:
            axis.plot(minutes, _smooth([row[name] for row in log]), label=name)
        axis.set_title(title)
        axis.legend(frameon=False)
    for name in log[-1]["terrain"]:
        if name != "flat":
            levels = _smooth([row["terrain"][name] for row in log])
            axes[1, 0].plot(minutes, levels, label=name)
    axes[1, 0].set_title("mean level of terrain")
    axes[1, 0].legend(frameon=False)
    falls, ended = (_smooth([row[name] for row in log]) for name in ("fell", "episodes"))
    share = [a / b if b > 0 else 0.0 for a, b in zip(falls, ended, strict=True)]
    axes[1, 1].plot(minutes, share)
    axes[1, 1].set_title("share of episodes that end in a fall")
    axes[1, 1].set_ylim(0, 1)
    for name in log[-1]["rewards"]:
        axes[1, 2].plot(minutes, _smooth([row["rewards"][name] for row in log]), label=name)
    axes[1, 2].set_title("reward by term")
    axes[1, 2].legend(frameon=False, fontsize=5, ncol=2)
    for axis in axes.flat:
        axis.set_xlabel("minutes")
        axis.grid(alpha=0.3)
    figure.savefig(picture, dpi=90)
    plt.close(figure)


def _smooth(values: list[float]) -> list[float]:
    average = _Average()
    return [average("", value) for value in values]
