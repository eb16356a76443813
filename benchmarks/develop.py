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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from draws import dataset_of, make_draw

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


USUAL = "train.epochs=50"  # of all runs of the log, unless they say otherwise
DRAWS = ("tree-ladder", "path-tree", "ladder-path", "star-path", "middle", "large")


def summary(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: test accuracy by OOD and by id validation, and the mask's ROC-AUC, mean over seeds."""
    cells: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        draw, method, _, *words = row["line"].split()
        changes = sorted(word.partition(".")[2] for word in words if word != USUAL)
        plain = f"*{Path(method.partition(':')[0]).stem}*" if ".py" in method else method  # prototypes in italics
        name = " ".join([plain, *changes])
        cells.setdefault(name, {}).setdefault(draw, []).append(row)

    def entry(found: list[dict[str, Any]]) -> str:
        if not found:
            return "–"
        scores = (statistics.fmean(row[rule]["test"] for row in found) for rule in ("val", "id_val"))
        masks = [row["mask"]["test"] for row in found if row["mask"]]
        text = " / ".join(f"{score:.1f}" for score in scores)
        return text + (f"<br>*{statistics.fmean(masks):.2f}*" if masks else "")

    draws = (*DRAWS, *sorted({draw for found in cells.values() for draw in found} - set(DRAWS)))
    lines = [["", *draws], ["---", *["---:"] * len(draws)]]
    lines += [[name, *(entry(found.get(draw, [])) for draw in draws)] for name, found in cells.items()]
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
