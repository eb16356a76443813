"""Two tables of molecules on one map."""

from pathlib import Path

from outland.report.drawing import pyplot, save_figure
from outland.shift.novelty import Novelty


def draw_map(found: Novelty, names: tuple[str, str], path: Path) -> None:
    """Each table beside the same map of both, so that neither hides the other."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharex=True, sharey=True, layout="constrained")
    for place, (axis, name, colour) in enumerate(zip(axes, names, ("tab:gray", "tab:green"), strict=True)):
        axis.scatter(*found.coordinates[1 - place].T, s=7, color="0.88", linewidths=0)
        axis.scatter(*found.coordinates[place].T, s=9, color=colour, alpha=0.55, linewidths=0)
        axis.set_title(f"{name} ({len(found.coordinates[place]):,} molecules)", fontsize=11)
        axis.set_xticks([])
        axis.set_yticks([])
        for side in axis.spines.values():
            side.set_color("0.8")
    figure.suptitle(
        f"Morgan fingerprints on their two main directions ({found.explained_variance:.0%} of their variance); "
        "pale: the other table",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path, 130)
    plt.close(figure)
