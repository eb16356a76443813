"""Molecules and small models that several rooms' tests share."""

import csv
import json
from functools import cache
from typing import Any

import torch

from outland.chem.featurizer import ATOMS, BONDS, parse
from outland.graphs import PackedGraphs, Schema, Task
from outland.models import TrainedModel, TrainingSummary
from outland.models.calibration import Calibration
from outland.models.trees import fit_forest
from outland.spec import RunSpec
from outland.storage.files import canonical_json, digest
from tests.conftest import SAMPLES

SMALL = {"width": 16, "layers": 3}
TABLE = SAMPLES / "bbbp.csv"


@cache
def bbbp() -> tuple[list[str], list[int]]:
    """The readable rows of the sample: 298 molecules."""
    with TABLE.open() as stream:
        rows = [(row["smiles"], int(row["p_np"])) for row in csv.DictReader(stream)]
    readable = [row for row in rows if parse(row[0]) is not None]
    return [smiles for smiles, _ in readable], [label for _, label in readable]


def vectors(rows: int, seed: int = 0, descriptors: int = 12) -> PackedGraphs:
    """Made-up molecules of one atom, with fingerprints and descriptors; some descriptors are missing."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, descriptors, generator=generator)
    values[torch.rand(rows, descriptors, generator=generator) < 0.05] = torch.nan
    bits = torch.randint(0, 256, (rows, 256), generator=generator, dtype=torch.uint8)
    bits &= torch.randint(0, 256, (rows, 256), generator=generator, dtype=torch.uint8)
    return PackedGraphs(
        x=torch.zeros(rows, ATOMS.width, dtype=torch.long),
        edge_index=torch.zeros(2, 0, dtype=torch.uint8),
        node_counts=torch.ones(rows, dtype=torch.long),
        edge_counts=torch.zeros(rows, dtype=torch.long),
        y=torch.zeros(rows, 1),
        reverse=torch.zeros(0, dtype=torch.uint8),
        edge_attr=torch.zeros(0, BONDS.width, dtype=torch.long),
        extra={"fingerprint": bits, "descriptors": values},
    )


def forest_model(task: Task, graphs: PackedGraphs, **rest: Any) -> TrainedModel:
    """A model whose only member is a small forest."""
    spec = RunSpec.make("memory", "erm", domain="random", kind="none", data_checksum="0")
    classes = {"binary": ("no", "yes"), "regression": ()}.get(task.kind, tuple(map(str, range(task.outputs))))
    return TrainedModel(
        members=(fit_forest(graphs, task, 0, trees=20, min_leaf=2),),
        schema=Schema(ATOMS, task, BONDS),
        spec=spec,
        classes=classes,
        calibration=Calibration.identity(task),
        training=TrainingSummary(epochs=0, best_epoch=0, seconds=1.0, graphs={"train": len(graphs)}),
        **rest,
    )


def resealed(folder, change):
    """The folder after an honest change of its values."""
    path = folder / "state.json"
    state = json.loads(path.read_text())
    state.pop("seal")
    change(state["values"])
    path.write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))
    return folder


def set_in(values, path, value):
    """Set a value by its dotted path."""
    *way, last = path.split(".")
    for name in way:
        values = values[int(name) if name.isdigit() else name]
    values[last] = value
