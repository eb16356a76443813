"""Methods on draws of datasets that are not the published ones: what a method of our own is developed on.

    .venv/bin/python benchmarks/develop.py runs.txt --out results/development.jsonl [--minutes 4]

A line of runs.txt is `DRAW METHOD SEED SETTINGS...`, as in `wheel-tree dropedge 0 backbone.pool=max`; draws.py says
which draws there are. Graphs of Motif are those of `--data-seed`, which is not the published one, and molecules those
that Molbbbp trains on, so no test score here is of a published test part.

All runs of the file are carried out side by side on a GPU, one after another elsewhere; each writes a line of JSON:
scores of id validation, OOD validation and test by each selection rule (after the share of the epochs that the recipe
bars), the course of the test score, and the ROC-AUC of the mask's edges. What the file holds already is not computed
again. `--summary` prints the tables of docs/ours.md.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from draws import MOLECULES, dataset_of, make_draw

from outland.devices import find_device
from outland.graphs import Splits
from outland.spec import RunSpec
from outland.training.capture import Event
from outland.training.mask_quality import mask_quality
from outland.training.runs import Training

MASKED = 200  # graphs of a part whose masks are looked at
DATA_SEED, PUBLISHED_SEED = 7, 123
PARTS = ("id_val", "val", "test")


class Experiment:
    """A line of the file: a run on a draw."""

    def __init__(self, line: str, splits: Splits, device: torch.device) -> None:
        name, method, seed, *words = line.split()
        dataset, domain = dataset_of(name)
        spec = RunSpec.from_words(dataset, method, words, domain=domain, seed=int(seed))
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
        late = curves[int(self.training.spec.train.burn_in * len(curves)) :]
        metric = self.training.splits.schema.task.metric
        rows = {rule: max(late, key=lambda row, rule=rule: row[rule][metric]) for rule in ("val", "id_val")}
        rows["last"] = curves[-1]
        splits = self.training.splits
        few = replace(splits, parts={part: splits.parts[part][:MASKED] for part in ("id_val", "test")})
        quality = mask_quality(method, few, 512)
        return {
            "line": self.line,
            **{rule: {part: round(100 * row[part][metric], 2) for part in PARTS} for rule, row in rows.items()},
            "course": [round(100 * row["test"][metric], 1) for row in curves[:: max(1, len(curves) // 8)]],
            "mask": {part: round(values["rocauc"], 4) for part, values in quality.items()},
            "seconds": round(time.time() - self.started, 1),
        }


USUAL = {"bbbp": "train.epochs=100"}  # of all runs of the log, unless they say otherwise
MOTIF = ("tree-ladder", "path-tree", "star-wheel", "ladder-path", "star-path", "middle", "large")
Cells = dict[str, dict[str, list[dict[str, Any]]]]  # rows of the log by run and draw


def summary(rows: list[dict[str, Any]]) -> str:
    """Markdown tables of Motif, CMNIST and molecules: test scores by OOD and by id validation, means over seeds."""
    families: dict[str, Cells] = {"motif": {}, "cmnist": {}, "molecules": {}}
    for row in rows:
        draw, method, _, *words = row["line"].split()
        family = draw.split("-")[0]
        usual = USUAL.get(family, "train.epochs=50")
        changes = sorted(word.partition(".")[2] for word in words if word != usual)
        plain = f"*{Path(method.partition(':')[0]).stem}*" if ".py" in method else method  # prototypes in italics
        cells = families["molecules" if family in MOLECULES else "cmnist" if family == "cmnist" else "motif"]
        cells.setdefault(" ".join([plain, *changes]), {}).setdefault(draw, []).append(row)
    tables = [_by_draw(families["motif"], MOTIF), _by_draw(families["cmnist"], ()), _by_shift(families["molecules"])]
    return "\n\n".join(table for table in tables if table)


def _by_draw(cells: Cells, known: tuple[str, ...]) -> str:
    """A column for each draw; below the scores the mask's ROC-AUC."""
    draws = (*known, *sorted({draw for found in cells.values() for draw in found} - set(known)))

    def entry(found: list[dict[str, Any]]) -> str:
        if not found:
            return "–"
        masks = [row["mask"]["test"] for row in found if row["mask"]]
        return _scores(found) + (f"<br>*{statistics.fmean(masks):.2f}*" if masks else "")

    return _markdown(draws, {name: [entry(found.get(draw, [])) for draw in draws] for name, found in cells.items()})


def _by_shift(cells: Cells) -> str:
    """A column for each dataset and domain: means over its draws, the difference from ERM on them, and how many.

    The difference is a dash where ERM has not run on all of them.
    """
    erm = cells.get("erm", {})
    shifts = sorted({draw.rpartition("-")[0] for found in cells.values() for draw in found})

    def entry(found: dict[str, list[dict[str, Any]]], shift: str) -> str:
        draws = [draw for draw in found if draw.startswith(f"{shift}-")]
        if not draws:
            return "–"
        gains = [_test(found[draw]) - _test(erm[draw]) for draw in draws if draw in erm]
        gain = f"{statistics.fmean(gains):+.1f}" if len(gains) == len(draws) else "–"
        return f"{_scores([row for draw in draws for row in found[draw]])}<br>*{gain}, {len(draws)}*"

    return _markdown(shifts, {name: [entry(found, shift) for shift in shifts] for name, found in cells.items()})


def _test(found: list[dict[str, Any]], rule: str = "val") -> float:
    return statistics.fmean(row[rule]["test"] for row in found)


def _scores(found: list[dict[str, Any]]) -> str:
    return " / ".join(f"{_test(found, rule):.1f}" for rule in ("val", "id_val"))


def _markdown(columns: Sequence[str], rows: dict[str, list[str]]) -> str:
    lines = [["", *columns], ["---", *["---:"] * len(columns)], *([name, *entries] for name, entries in rows.items())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""


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
    draw = cache(lambda name, read: make_draw(name, arguments.data_seed, device, read))  # with descriptors, or without
    width = arguments.width or (8 if device.type == "cuda" else 1)
    active: list[Experiment] = []
    while (lines or active) and time.time() - started < 60 * arguments.minutes:
        while lines and len(active) < width:
            line = lines.pop(0)
            splits = draw(line.split()[0], "backbone.descriptors=true" in line)
            active.append(Experiment(line, splits, device))
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
