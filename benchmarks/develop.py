"""Methods on draws of Motif that are not the published ones: what a method of our own is developed on.

    .venv/bin/python benchmarks/develop.py runs.txt --out results/development.jsonl [--minutes 4]

A line of runs.txt is `DRAW METHOD SEED SETTINGS...`, as in `wheel-tree dropedge 0 backbone.pool=max`. Graphs are those
of `--data-seed`, which is not the published one, so no test score here is of a published test part. A draw of bases,
`VAL-TEST`, trains on the other three of wheel, tree, ladder, star and path, of which it has as many graphs; a draw of
sizes, `middle` or `large`, trains on the smaller ones and is tested on the larger. (No more than 15 trees with a
motif differ, so scores on them go by steps.)

All runs of the file are carried out side by side on a GPU, one after another elsewhere; each writes a line of JSON:
scores of id validation, OOD validation and test by each selection rule after 70 % of the epochs, the course of the test
score, and the ROC-AUC of the mask's edges. What the file holds already is not computed again. `--summary` prints the
table of docs/ours.md.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from outland.datasets.motif_shapes import BASES
from outland.devices import find_device
from outland.graphs import Splits
from outland.spec import RunSpec, load_splits
from outland.training.capture import Event
from outland.training.mask_quality import mask_quality
from outland.training.runs import Training

SIZES = {"middle": ((0, 1), 2, 3), "large": ((0, 1, 2), 3, 4)}  # environments: train, val, test
TRAIN, SCORED, TESTED = 12000, 1500, 3000
DATA_SEED, PUBLISHED_SEED = 7, 123
PARTS = ("id_val", "val", "test")
LATE = 0.7  # share of the epochs that are not selected, as in the published setting


def make_draw(name: str, seed: int, device: torch.device) -> Splits:
    """The parts of a draw."""
    domain, kind = ("size", "covariate") if name in SIZES else ("base", "none")
    splits = load_splits(RunSpec.make("motif", "erm", domain, kind, changes={"data": {"seed": seed}}), device)
    random = torch.Generator().manual_seed(seed)
    if name in SIZES:
        values, (train, val, test) = splits.graphs.environment, SIZES[name]
    else:
        val, test = (BASES.index(base) for base in name.split("-"))
        values, train = splits.graphs.extra["base"], tuple({0, 1, 2, 3, 4} - {val, test})
    assert values is not None

    def drawn(*wanted: int) -> torch.Tensor:
        index = torch.isin(values.cpu(), torch.tensor(wanted)).nonzero().flatten()
        return index[torch.randperm(len(index), generator=random)]

    inside = drawn(*train)
    parts = {"train": inside[:TRAIN], "id_val": inside[TRAIN:][-SCORED:], "val": drawn(val)[:SCORED]}
    return Splits(splits.graphs, {**parts, "test": drawn(test)[:TESTED]}, splits.schema, splits.source)


class Experiment:
    """A line of the file: a run on a draw."""

    def __init__(self, line: str, splits: Splits, device: torch.device) -> None:
        name, method, seed, *words = line.split()
        domain = "size" if name in SIZES else "base"
        spec = RunSpec.from_words("motif", method, words, domain=domain, seed=int(seed))
        self.line = line
        self.training, self.event, self.started = Training(spec, splits, device), None, time.time()
        self.steps: Iterator[Event] = self.training.steps()

    def advance(self) -> bool:
        """Take a step, unless the device has not ended the last; whether there are more."""
        if self.event is None or self.event.query():
            try:
                self.event = next(self.steps)
            except StopIteration:
                return False
        return True

    def result(self) -> dict[str, Any]:
        """What came out."""
        curves, method = self.training.trainer.curves, self.training.trainer.method
        late = curves[int(LATE * len(curves)) :]
        rows = {rule: max(late, key=lambda row, rule=rule: row[rule]["accuracy"]) for rule in ("val", "id_val")}
        rows["last"] = curves[-1]
        quality = mask_quality(method, self.training.splits, 512)
        return {
            "line": self.line,
            **{rule: {part: round(100 * row[part]["accuracy"], 2) for part in PARTS} for rule, row in rows.items()},
            "course": [round(100 * row["test"]["accuracy"], 1) for row in curves[:: max(1, len(curves) // 8)]],
            "mask": {part: round(values["rocauc"], 4) for part, values in quality.items()},
            "seconds": round(time.time() - self.started, 1),
        }


USUAL = "train.epochs=50"  # of all runs of the log, unless they say otherwise
DRAWS = ("tree-ladder", "path-tree", "ladder-path", "star-path", "middle", "large")


def summary(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: test accuracy by OOD and by id validation, and the mask's ROC-AUC, mean over seeds."""
    cells: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        draw, method, _, *words = row["line"].split()
        changes = sorted(word.partition(".")[2] for word in words if word != USUAL)
        name = " ".join([method.rpartition("/")[2].partition(".py")[0], *changes])
        cells.setdefault(name, {}).setdefault(draw, []).append(row)

    def entry(found: list[dict[str, Any]]) -> str:
        if not found:
            return "–"
        scores = (statistics.fmean(row[rule]["test"] for row in found) for rule in ("val", "id_val"))
        masks = [row["mask"]["test"] for row in found if row["mask"]]
        text = " / ".join(f"{score:.1f}" for score in scores)
        return text + (f"<br>*{statistics.fmean(masks):.2f}*" if masks else "")

    lines = [["", *DRAWS], ["---", *["---:"] * len(DRAWS)]]
    lines += [[name, *(entry(found.get(draw, [])) for draw in DRAWS)] for name, found in cells.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=Path("results/development.jsonl"))
    parser.add_argument("--data-seed", type=int, default=DATA_SEED)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--width", type=int, help="runs at a time: by default 8 on a GPU, else 1")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--summary", action="store_true", help="print the table of what is there, and end")
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    if arguments.summary:
        print(summary(rows))
        return
    if arguments.file is None or arguments.data_seed == PUBLISHED_SEED:
        parser.error(f"name the file of runs, and a seed of the data that is not {PUBLISHED_SEED}, the published one")
    device, started = find_device(arguments.device), time.time()
    done = {row["line"] for row in rows if row["data_seed"] == arguments.data_seed}
    lines = [line for each in arguments.file.read_text().splitlines() if (line := each.strip()) and line not in done]
    names = {line.split()[0] for line in lines}
    draws = {name: make_draw(name, arguments.data_seed, device) for name in names}
    width = arguments.width or (8 if device.type == "cuda" else 1)
    active: list[Experiment] = []
    while (lines or active) and time.time() - started < 60 * arguments.minutes:
        while lines and len(active) < width:
            line = lines.pop(0)
            active.append(Experiment(line, draws[line.split()[0]], device))
        for experiment in list(active):
            if experiment.advance():
                time.sleep(1e-5)  # a waiting loop leaves the core to others
                continue
            active.remove(experiment)
            row = {"data_seed": arguments.data_seed, **experiment.result()}
            print(json.dumps(row), flush=True)
            with arguments.out.open("a") as stream:
                stream.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
