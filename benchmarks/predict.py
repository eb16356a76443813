"""A long table predicted as it streams by: processor time a row by stages, rows a second, memory, exactness.

    outland fit examples/bbbp.csv --target p_np
    python benchmarks/predict.py --model bbbp-p_np-model --rows 1000000

The table repeats the molecules of `--table`, in a seeded order. Stages are timed on 512 molecules, the least of some
rounds. The table is predicted by turns as now and as before (atoms and bonds of every molecule, 256 rows at once), and
the ratio is that of processor times, the processes that read included. Memory is the largest resident set, as the
kernel counts it. `--out` keeps the figures.
"""

import argparse
import csv
import json
import os
import platform
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from outland.chem.counts import counts
from outland.chem.descriptors import descriptors, fingerprint
from outland.chem.featurizer import featurize, parse
from outland.chem.smiles import pack_molecules
from outland.models import TrainedModel, load_model
from outland.models.predicted_rows import predict_molecules
from outland.models.table_predictions import predict_table

HERE = Path(__file__).resolve().parents[1]
STAGE_ROWS, ROUNDS = 512, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder of `outland fit`")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--table", type=Path, default=HERE / "examples" / "bbbp.csv")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, smiles = load_model(arguments.model), molecules(arguments.table)
    figures: dict[str, Any] = {"model": model.name, "rows": arguments.rows, "cores": os.cpu_count()}
    figures["processor"] = platform.processor() or platform.machine()
    figures["microseconds_by_stage"] = stages(model, smiles)
    figures |= predicted(model, smiles, arguments.rows, arguments.turns)
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


def molecules(path: Path) -> list[str]:
    with path.open() as stream:
        return [row["smiles"] for row in csv.DictReader(stream) if parse(row["smiles"]) is not None]


def least(function: Callable[[], Any], rows: int) -> float:
    """Microseconds of processor time a row, the least of some rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        function()
        times.append(time.process_time() - started)
    return round(1e6 * min(times) / rows, 1)


def stages(model: TrainedModel, smiles: list[str]) -> dict[str, float]:
    """Microseconds a molecule of each stage."""
    texts = random.Random(0).choices(smiles, k=STAGE_ROWS)
    read = [parse(text) for text in texts]
    featurized = [featurize(molecule, vector=True, atoms=model.schema.node) for molecule in read]
    graphs = pack_molecules(featurized, torch.zeros(len(texts), 1))
    # What RDKit finds once it keeps with the molecule: descriptors are timed on molecules read anew.
    steps: dict[str, Callable[[], Any]] = {
        "SMILES": lambda: [parse(text) for text in texts],
        "SMILES and descriptors": lambda: [descriptors(parse(text)) for text in texts],
        "fingerprint": lambda: [fingerprint(molecule) for molecule in read],
        "counts": lambda: [counts(molecule) for molecule in read],
        "atoms and bonds": lambda: [featurize(molecule, atoms=model.schema.node) for molecule in read],
        "packing": lambda: pack_molecules(featurized, torch.zeros(len(texts), 1)),
        **{member.name: lambda member=member: member.outputs(graphs) for member in model.members},
    }
    if model.neighbours is not None:
        steps["similarity"] = lambda: model.neighbours.similarity(graphs.extra["fingerprint"])
    steps["all of the model"] = lambda: predict_molecules(model, featurized)
    return {name: least(step, len(texts)) for name, step in steps.items()}


def predicted(model: TrainedModel, smiles: list[str], rows: int, turns: int) -> dict[str, Any]:
    """Times, memory and exactness of predicting a table, now and as before."""
    costs: dict[str, list[float]] = {"now": [], "before": []}
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "long.csv", Path(folder) / "predicted.csv"
        write_table(table, smiles, rows)
        for name in ["now", "before"] * turns:
            started, cpu = time.perf_counter(), processor_time()
            with mock.patch("outland.models.table_predictions._ROWS", 1024 if name == "now" else 256):
                predict_table(model, table, out, force=True, graphs=name == "before")
            costs[name].append(processor_time() - cpu)
            if name == "now":
                seconds = time.perf_counter() - started
        memory = {
            "predicting": peak(resource.RUSAGE_SELF),
            "largest reader": peak(resource.RUSAGE_CHILDREN),
        }
        worst = largest_difference(model, out)
    return {
        "processor_microseconds_a_row": {name: round(1e6 * min(each) / rows, 1) for name, each in costs.items()},
        "ratio": round(min(costs["now"]) / min(costs["before"]), 3),
        "rows_a_second_by_the_clock": round(rows / seconds),
        "rows_a_second_of_two_whole_cores_computed": round(2 * rows / min(costs["now"])),
        "peak_gigabytes": memory,
        "largest_difference_to_one_call": worst,
    }


def write_table(path: Path, smiles: list[str], rows: int) -> None:
    generator = random.Random(0)
    with path.open("w") as stream:
        stream.write("id,smiles\n")
        for row in range(rows):
            stream.write(f"{row},{generator.choice(smiles)}\n")


def processor_time() -> float:
    """Seconds of this process and of its children that have ended."""
    return sum(
        getattr(resource.getrusage(who), name)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        for name in ("ru_utime", "ru_stime")
    )


def peak(who: int) -> float:
    return round(resource.getrusage(who).ru_maxrss / 1e6, 2)  # kilobytes on Linux


def largest_difference(model: TrainedModel, out: Path) -> float:
    """Of the written probabilities to those of all rows in one call; six digits are written."""
    with out.open() as stream:
        rows = [(row["smiles"], row["outland_probability"]) for row in csv.DictReader(stream)]
    names = list(dict.fromkeys(smiles for smiles, _ in rows))
    cells = predict_molecules(model, [featurize(parse(name), vector=True, atoms=model.schema.node) for name in names])
    expected = {name: float(cell["outland_probability"]) for name, cell in zip(names, cells, strict=True)}
    return max(abs(float(text) - expected[smiles]) for smiles, text in rows)


if __name__ == "__main__":
    main()
