"""Ten seeds of each method side by side on one device, scored under every selection rule; writes JSON.

    .venv/bin/python benchmarks/seeds.py --out results/motif.json [--seeds 10] [--first 1] CELL ...

A cell is a domain, a method and settings, as `base aia:released train.batch_size=512`, in one word with spaces. Cells
that the file already holds from the same first seed are not run again.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from outland.devices import find_device
from outland.graphs import Task
from outland.progress import console
from outland.training import RunSpec, run_fleet
from outland.training.record import describe_platform
from outland.training.selection import selections

FRAME = ["train.epochs=100", "train.burn_in=0.7", "train.checkpoint_every=50"]
TASK = Task("multiclass", 3, "accuracy")  # Motif's
PARTS = ("id_val", "id_test", "val", "test")


def run_cell(words: str, seeds: range, device: str, folder: str, more: list[str]) -> dict:
    """Run a cell; returns its runs and their summary."""
    domain, method, *settings = words.split()
    specs = [
        RunSpec.from_words("motif", method, [*FRAME, *settings, *more], domain=domain, seed=seed) for seed in seeds
    ]
    started = time.perf_counter()
    result = run_fleet(specs, folder, device=device)
    for index, problem in result.failures.items():
        console().print(f"{words}, seed {specs[index].seed}: {problem}")
    rows = []
    for index, record in sorted(result.records.items()):
        row = {
            "seed": specs[index].seed,
            "key": record.key,
            "selection": record.selection,
            "masks": record.masks.get("test", {}),
            "loss": record.curves[-1]["loss"],
            "curves": curves(record.curves),
            "seconds": [round(second, 2) for second in record.timing["epochs"]],
        }
        if "unaveraged" in record.curves[0]:
            unaveraged = [epoch["unaveraged"] for epoch in record.curves]
            row["unaveraged"] = {
                "selection": selections(unaveraged, TASK, specs[index].train.burn_in_epochs()),
                "curves": curves(unaveraged),
            }
        rows.append(row)
    results = {
        "cell": words,
        "first": seeds[0],
        "seconds": round(time.perf_counter() - started, 1),
        "failures": {str(specs[index].seed): str(problem) for index, problem in result.failures.items()},
        "summary": summary(rows),
        "runs": rows,
    }
    if rows and "unaveraged" in rows[0]:
        results["summary_unaveraged"] = summary([row["unaveraged"] for row in rows])
    return results


def curves(epochs: list[dict]) -> dict[str, list[float]]:
    """Accuracy of each part over the epochs."""
    return {part: [round(row[part]["accuracy"], 4) for row in epochs] for part in PARTS}


def summary(rows: list[dict]) -> dict:
    """Mean, population deviation and standard error of each part's score, in percent, under every rule."""
    table: dict = {}
    for rule in rows[0]["selection"] if rows else ():
        selected = [row["selection"][rule] for row in rows]
        table[rule] = {}
        for part in PARTS:
            values = [100 * scores[part] for scores in selected if part in scores]
            spread = statistics.pstdev(values)
            error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
            table[rule][part] = [round(number, 2) for number in (statistics.mean(values), spread, error)]
    return table


def write(results: dict, path: Path) -> None:
    """JSON with one line a run: curves have a hundred numbers."""
    cells = []
    for cell in results["cells"]:
        runs = ",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in cell["runs"])
        head = json.dumps({name: value for name, value in cell.items() if name != "runs"})
        cells.append(f'{head[:-1]},\n "runs": [\n{runs}\n ]}}')
    head = json.dumps({name: value for name, value in results.items() if name != "cells"})
    path.write_text(f'{head[:-1]},\n"cells": [\n' + ",\n".join(cells) + "\n]}\n")


def main() -> None:
    """Run the cells that are not there yet, and write after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", nargs="*", default=[], dest="more", help="settings of every cell")
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="seconds after which no cell is begun")
    arguments = parser.parse_args()
    started = time.perf_counter()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"cells": []}
    results["platform"] = describe_platform(find_device(arguments.device))
    results["frame"] = [*FRAME, *arguments.more]
    done = {(cell["cell"], cell["first"]) for cell in results["cells"]}
    for words in arguments.cells:
        if (words, arguments.first) in done or time.perf_counter() - started > arguments.stop_after:
            continue
        with tempfile.TemporaryDirectory() as folder:
            seeds = range(arguments.first, arguments.first + arguments.seeds)
            results["cells"].append(run_cell(words, seeds, arguments.device, folder, arguments.more))
        last = results["cells"][-1]
        for name in ("summary", "summary_unaveraged"):
            tested = {rule: row["test"] for rule, row in last.get(name, {}).items()}
            print(words, name, last["seconds"], tested, flush=True)
        write(results, arguments.out)


if __name__ == "__main__":
    main()
