"""Microseconds a molecule on one core: its SMILES read, its graph, fingerprint, descriptors, and a network's pass.

    python benchmarks/featurize.py

Each block of molecules is timed several times and its least time counts, so that other work on the machine changes
little.
"""

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from outland.chem.descriptors import DESCRIPTOR_NAMES, descriptors, fingerprint
from outland.chem.featurizer import ATOMS, BONDS, featurize, parse
from outland.chem.packing import pack_molecules
from outland.graphs import Batches, Schema, Task
from outland.nn import GraphNet
from outland.spec import RunSpec

HERE = Path(__file__).resolve().parents[1]
BLOCK = 20


def least(function: Callable[[Any], Any], rows: list[Any], fresh: Callable[[Any], Any], repeats: int) -> float:
    """Microseconds a row; `fresh` makes the input of a row anew before each time."""
    total = 0.0
    for first in range(0, len(rows), BLOCK):
        times = []
        for _ in range(repeats):
            inputs = [fresh(row) for row in rows[first : first + BLOCK]]
            started = time.perf_counter()
            for each in inputs:
                function(each)
            times.append(time.perf_counter() - started)
        total += min(times)
    return 1e6 * total / len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=HERE / "tests" / "data" / "bbbp.csv")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with arguments.table.open() as stream:
        smiles = [row["smiles"] for row in csv.DictReader(stream) if parse(row["smiles"]) is not None]
    steps: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
        "SMILES": (parse, str),
        "graph": (featurize, parse),
        "fingerprint": (fingerprint, parse),
        "descriptors": (descriptors, parse),
        "all of them": (lambda text: featurize(parse(text), vector=True), str),
    }
    for name, (function, fresh) in steps.items():
        print(f"{name:16} {least(function, smiles, fresh, arguments.repeats):6.0f}")
    graphs = pack_molecules([featurize(parse(text), vector=True) for text in smiles], torch.zeros(len(smiles), 1))
    backbone = RunSpec.make("rows", "erm", data_checksum="-").backbone
    schema = Schema(ATOMS, Task("binary", 1, "rocauc"), BONDS, descriptors=len(DESCRIPTOR_NAMES))
    network = GraphNet(backbone, schema).eval().requires_grad_(False)
    batches = list(Batches(graphs, torch.arange(len(graphs)), 64))
    passes = least(network, batches, lambda batch: batch, arguments.repeats)
    print(f"{backbone.kind + ', ' + str(backbone.width):16} {passes * len(batches) / len(smiles):6.0f}")


if __name__ == "__main__":
    main()
