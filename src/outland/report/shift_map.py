"""Two tables of molecules on one map."""

from pathlib import Path

from outland.report.drawing import new_figure, save_figure
from outland.shift.novelty import Novelty


def draw_map(novelty: Novelty, names: tuple[str, str], path: Path) -> None:
    """Draw each table in a panel of its own, over the other one in pale."""
    figure, axes = new_figure(1, 2, (5, 4.8), sharex=True, sharey=True)
    for number, (panel, name, colour) in enumerate(zip(axes[0], names, ("tab:gray", "tab:green"), strict=True)):
        points, others = novelty.coordinates[number], novelty.coordinates[1 - number]
        panel.scatter(*others.T, s=7, color="0.88", linewidths=0)
        panel.scatter(*points.T, s=9, color=colour, alpha=0.55, linewidths=0)
        panel.set_title(f"{name} ({len(points):,} molecules)", fontsize=11, parse_math=False)
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set_color("0.8")
    figure.suptitle(
        f"Morgan fingerprints on their two main directions ({novelty.explained_variance:.0%} of their variance); "
        "pale: the other table",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path, 130)
