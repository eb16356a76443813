"""A long table predicted as it streams by: processor time a row by stages, rows a second, memory, exactness.

    outland fit examples/bbbp.csv --target p_np
    git worktree add /tmp/before COMMIT
    python benchmarks/predict.py --model bbbp-p_np-model --rows 20000 --before /tmp/before

The table repeats the molecules of `--table`, in a seeded order. Stages are timed on 512 molecules, the least of some
rounds, and the table is predicted, both by turns in processes of their own, with this source and with that of
`--before`: on a machine that is shared only the ratios say much. Processor times are those of prediction, the processes
that read included; memory is the largest resident set, as the kernel counts it. `--out` keeps the figures.
"""

import argparse
import csv
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from outland.chem.counts import counts
from outland.chem.descriptors import descriptors, fingerprint
from outland.chem.featurizer import featurize, parse
from outland.estimators.inputs import read_inputs
from outland.models import TrainedModel, load_model
from outland.models.predicted_rows import predict_rows
from outland.models.table_predictions import predict_table

HERE = Path(__file__).resolve().parents[1]
STAGE_ROWS, ROUNDS = 512, 3
Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder of `outland fit`")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--table", type=Path, default=HERE / "examples" / "bbbp.csv")
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=["stages", "table"], help="what a process of its own measures")
    parser.add_argument("--written", type=Path, help="what the table's predictions are written to, with --only table")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.only:
        model = load_model(given.model)
        print(json.dumps(stages(model, given.table) if given.only == "stages" else predicted(model, given)))
        return
    text = json.dumps(compared(given), indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


def compared(given: argparse.Namespace) -> Figures:
    """All figures, of this source and of the one before."""
    trees = {"now": HERE} | ({"before": given.before} if given.before else {})
    figures: Figures = {"rows": given.rows, "cores": os.cpu_count()}
    figures["processor"] = platform.processor() or platform.machine()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "long.csv"
        write_table(table, molecules(given.table), given.rows)
        written = {name: Path(folder) / f"{name}.csv" for name in trees}
        times: dict[str, list[Figures]] = {name: [] for name in trees}
        steps: dict[str, list[Figures]] = {name: [] for name in trees}
        for _ in range(given.turns):
            for name, tree in trees.items():
                steps[name].append(run(tree, given.model, "stages", given.table, written[name]))
                times[name].append(run(tree, given.model, "table", table, written[name]))
        figures["largest_difference"] = differences(written, given.model)
    for name in trees:
        best = min(times[name], key=lambda each: each["processor_seconds"])
        figures[name] = {
            "microseconds_by_stage": {step: min(each[step] for each in steps[name]) for step in steps[name][0]},
            "processor_microseconds_a_row": round(1e6 * best["processor_seconds"] / given.rows, 1),
            "rows_a_second_by_the_clock": round(given.rows / best["seconds"]),
            "rows_a_second_of_two_whole_cores_computed": round(2 * given.rows / best["processor_seconds"]),
            "peak_gigabytes": best["peak_gigabytes"],
        }
    return figures


def run(tree: Path, model: Path, only: str, table: Path, written: Path) -> Figures:
    """What one process measures with the source of a checkout."""
    words = ["--model", model.resolve(), "--only", only, "--table", table.resolve(), "--written", written]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__, *map(str, words)], env=environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


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


def stages(model: TrainedModel, table: Path) -> Figures:
    """Microseconds a molecule of each stage."""
    atoms = model.schema.node
    texts = random.Random(0).choices(molecules(table), k=STAGE_ROWS)
    read = [parse(text) for text in texts]
    graphs = read_inputs(texts, atoms=atoms).graphs
    # What RDKit finds once it keeps with the molecule: descriptors are timed on molecules read anew.
    steps: dict[str, Callable[[], Any]] = {
        "SMILES": lambda: [parse(text) for text in texts],
        "SMILES and descriptors": lambda: [descriptors(parse(text)) for text in texts],
        "fingerprint": lambda: [fingerprint(molecule) for molecule in read],
        "counts": lambda: [counts(molecule) for molecule in read],
        "atoms and bonds": lambda: [featurize(molecule, atoms=atoms) for molecule in read],
        **{member.name: lambda member=member: member.outputs(graphs) for member in model.members},
    }
    if model.neighbours is not None:
        steps["similarity"] = lambda: model.neighbours.similarity(graphs.extra["fingerprint"])
    steps["all of the model"] = lambda: model.predict(graphs)
    steps["all of the model, as text"] = lambda: predict_rows(model, graphs)
    return {name: least(step, len(texts)) for name, step in steps.items()}


def predicted(model: TrainedModel, given: argparse.Namespace) -> Figures:
    """Times and memory of predicting a table."""
    started, cpu = time.perf_counter(), processor_time()
    predict_table(model, given.table, given.written, force=True)
    return {
        "processor_seconds": processor_time() - cpu,
        "seconds": time.perf_counter() - started,
        "peak_gigabytes": {"predicting": peak(resource.RUSAGE_SELF), "reading": peak(resource.RUSAGE_CHILDREN)},
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


def differences(written: dict[str, Path], folder: Path) -> Figures:
    """Of the written probabilities to those of all rows in one call, and before; six digits are written."""
    columns = {
        name: [(row["smiles"], row["outland_probability"]) for row in rows(path)] for name, path in written.items()
    }
    names, model = list(dict.fromkeys(smiles for smiles, _ in columns["now"])), load_model(folder)
    cells = predict_rows(model, read_inputs(names, atoms=model.schema.node).graphs)
    expected = {name: float(cell["outland_probability"]) for name, cell in zip(names, cells, strict=True)}
    figures = {"to one call": max(abs(float(text) - expected[smiles]) for smiles, text in columns["now"])}
    if "before" in columns:
        pairs = zip(columns["now"], columns["before"], strict=True)
        figures["to before"] = max(abs(float(ours) - float(theirs)) for (_, ours), (_, theirs) in pairs)
    return figures


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
