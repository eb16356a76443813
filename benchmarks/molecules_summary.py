"""What `benchmarks/molecules.py` measured, as tables: scores, ranks, calibration, coverage, error by flag."""

from typing import Any

import numpy as np

CONTENDERS = ("outland", "forest", "chemprop")
Results = dict[str, dict[str, dict[str, dict[str, Any]]]]  # by set, contender and cut


def score(row: dict[str, Any]) -> float:
    """The loss that contenders are ranked by: RMSE, or 1 - ROC-AUC."""
    return float(row["rmse"]) if "rmse" in row else 1 - float(row["rocauc"])


def common_cuts(results: Results, name: str) -> list[str]:
    """Cuts of a set that all contenders have done."""
    parts = [results[name].get(contender, {}) for contender in CONTENDERS]
    return sorted(set.intersection(*(set(part) for part in parts)))


def ranks(results: Results) -> dict[str, float]:
    """Mean rank of each contender over the cuts that all have done, 1 the best; empty where there are none."""
    rows = [
        [score(results[name][contender][cut]) for contender in CONTENDERS]
        for name in results
        for cut in common_cuts(results, name)
    ]
    if not rows:
        return {}
    order = np.argsort(np.argsort(np.array(rows), axis=1), axis=1) + 1
    return dict(zip(CONTENDERS, order.mean(0).tolist(), strict=True))


def behind(results: Results, name: str, other: str) -> tuple[int, float, float] | None:
    """How far outland is behind another contender of a set: cuts that both have done, mean, and its standard error.

    None where there are no such cuts; the standard error of a single one is NaN.
    """
    ours, theirs = results[name].get("outland", {}), results[name].get(other, {})
    cuts = sorted(set(ours) & set(theirs))
    if not cuts:
        return None
    gaps = np.array([score(ours[cut]) - score(theirs[cut]) for cut in cuts])
    error = float(gaps.std(ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else float("nan")
    return len(cuts), float(gaps.mean()), error


def trust(results: Results) -> dict[str, float]:
    """Mean calibration error over sets of classes, and mean coverage over all sets, each cut counting alike."""
    rows = [row for name in results for row in results[name].get("outland", {}).values()]
    errors = [row["ece"] for row in rows if "ece" in row]
    means = {"ece": errors, "coverage": [row["coverage"] for row in rows]}
    return {name: float(np.mean(values)) for name, values in means.items() if values}


def by_flag(results: Results, name: str) -> dict[str, tuple[int, float]]:
    """Rows and mean error (squared, of probabilities; absolute, of numbers) by flag, over all cuts of a set."""
    found: dict[str, tuple[int, float]] = {}
    for flag in ("near", "edge", "far"):
        parts = [row["error_by_flag"].get(flag, (0, 0.0)) for row in results[name].get("outland", {}).values()]
        count = sum(rows for rows, _ in parts)
        if count:
            found[flag] = count, sum(rows * error for rows, error in parts) / count
    return found


def score_table(results: Results) -> str:
    """A Markdown table of scores: mean of the cuts that a contender has done, and how many."""
    lines = ["| set | measure | outland | forest | chemprop |", "|---|---|---|---|---|"]
    for name, of_set in results.items():
        measure = "RMSE" if "rmse" in next(iter(of_set["forest"].values())) else "ROC-AUC"
        cells = []
        for contender in CONTENDERS:
            values = [row.get("rmse", row.get("rocauc")) for row in of_set.get(contender, {}).values()]
            cells.append(f"{np.mean(values):.3f} ({len(values)})" if values else "–")
        lines.append(f"| {name} | {measure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def paired_table(results: Results) -> str:
    """A Markdown table of how far outland is behind others on the cuts that both have done; below 0 it is ahead."""
    lines = ["| set | behind the forest | behind chemprop |", "|---|---|---|"]
    for name in results:
        cells = []
        for other in CONTENDERS[1:]:
            gap = behind(results, name, other)
            cells.append("–" if gap is None else f"{gap[1]:+.3f} ± {gap[2]:.3f} ({gap[0]})".replace("± nan ", ""))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def trust_table(results: Results) -> str:
    """A Markdown table of calibration error, coverage and error by flag."""
    lines = ["| set | calibration error | coverage | error near, edge, far (rows) |", "|---|---|---|---|"]
    for name in results:
        rows = list(results[name].get("outland", {}).values())
        if not rows:
            continue
        calibration = f"{np.mean([row['ece'] for row in rows]):.3f}" if "ece" in rows[0] else "–"
        flags = ", ".join(f"{error:.3f} ({count:,})" for count, error in by_flag(results, name).values())
        lines.append(f"| {name} | {calibration} | {np.mean([row['coverage'] for row in rows]):.3f} | {flags} |")
    return "\n".join(lines)


def summary(results: Results) -> str:
    """All tables, and the means over sets."""
    mean_ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks(results).items())
    cuts = sum(len(common_cuts(results, name)) for name in results)
    means = ", ".join(f"{name} {value:.3f}" for name, value in trust(results).items())
    lines = [f"Mean rank on the {cuts} cuts that all have done: {mean_ranks}.", f"Means over outland's cuts: {means}."]
    return "\n\n".join([score_table(results), paired_table(results), trust_table(results), *lines])
