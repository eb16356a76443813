"""What methods and runs cost: measured once for every shape of dataset, and scaled to this machine."""

import json
import math
import time
from functools import lru_cache
from importlib.resources import files
from typing import Any

import torch
from torch_geometric.data import Data

from outland.graphs import Batches, Features, PackedGraphs, Schema, Task
from outland.methods import Progress, build_method, method_settings
from outland.nn import BackboneSettings
from outland.recipes import DatasetSize, recipe_for
from outland.training import RunSpec, TrainSettings
from outland.training.stepper import Stepper

_UNKNOWN = DatasetSize(train=1000, scored=1000, nodes=20.0, edges=50.0)  # of a dataset without a recipe


@lru_cache
def _table(name: str) -> Any:
    return json.loads(files("outland.studies").joinpath(name).read_text(encoding="utf-8"))


def method_costs() -> dict[str, float]:
    """Time of a training step relative to ERM's, by method, from the benchmark of speed on Motif."""
    costs: dict[str, float] = _table("method-costs.json")
    return costs


def estimate(spec: RunSpec, speed: float = 1.0) -> float:
    """Seconds that a run will take.

    Args:
        spec: of the run.
        speed: how long this machine takes for what took the machine of the measurements one second (see `calibrate`).
    """
    units = _table("unit-costs.json")
    recipe = recipe_for(spec.dataset)
    shape = (recipe and recipe.dataset_size(spec.dataset, spec.domain, spec.kind)) or _UNKNOWN
    limit = spec.data.limit or 10**9
    train, scored = min(shape.train, limit), min(shape.scored, 4 * limit)
    step, forward = _graph_seconds(units, shape, spec.backbone)
    cost = method_costs().get(spec.method, 1.0)
    return speed * spec.train.epochs * (train * step * cost + scored * forward * math.sqrt(cost))


def _graph_seconds(units: dict[str, Any], shape: DatasetSize, backbone: BackboneSettings) -> tuple[float, float]:
    """Seconds a graph of ERM's training step, and of its forward pass: so much a graph, a node and an edge."""
    rates = units["rates"]
    work = shape.nodes * rates["node"] + shape.edges * rates["edge"]
    scale = (backbone.width / 300) ** rates["width_power"] * backbone.layers / 4 * units["backbones"][backbone.kind]
    step = work * scale + rates["graph"]
    return step, step * rates["forward"]


@lru_cache
def calibrate(device: torch.device | str = "cpu") -> float:
    """How long this machine takes for what took the machine of the measurements one second, from a second of work."""
    reference: float = _table("unit-costs.json")["reference_seconds"]
    return (
        time_steps(DatasetSize(train=0, scored=0, nodes=17.0, edges=48.0), BackboneSettings(), device=device)[0]
        / reference
    )


def time_steps(
    shape: DatasetSize,
    backbone: BackboneSettings,
    graphs: int = 32,
    repeats: int = 6,
    device: torch.device | str = "cpu",
) -> tuple[float, float]:
    """Seconds a graph of ERM's training step and forward pass, on random graphs of a shape; the fastest counts."""
    schema = Schema(Features(3), Task("multiclass", 3, "accuracy"))
    packed = _random_graphs(shape, graphs).to(device)
    method = build_method("erm", schema, backbone, method_settings("erm", {})).to(device)
    stepper = Stepper(method, TrainSettings())
    batch = next(iter(Batches(packed, torch.arange(graphs), graphs)))

    def seconds(work: Any) -> float:
        best = math.inf
        for _ in range(repeats):
            started = time.perf_counter()
            work()
            if torch.device(device).type == "cuda":
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - started)
        return best / graphs

    step = seconds(lambda: stepper.step(batch, Progress()))
    method.eval()
    with torch.inference_mode():
        return step, seconds(lambda: method(batch))


def _random_graphs(shape: DatasetSize, count: int) -> PackedGraphs:
    random = torch.Generator().manual_seed(0)
    nodes, pairs = round(shape.nodes), round(shape.edges / 2)
    made = []
    for _ in range(count):
        ends = torch.randint(nodes, (2, pairs), generator=random)
        edges = torch.cat([ends, ends.flip(0)], 1).unique(dim=1)
        made.append(Data(x=torch.rand(nodes, 3, generator=random), edge_index=edges, y=torch.tensor([0])))
    return PackedGraphs.from_data_list(made)


def spoken(seconds: float) -> str:
    """A time as people say it.

    >>> spoken(75), spoken(7200), spoken(12), spoken(0.2)
    ('1.2 min', '2.0 h', '12 s', 'a second')
    """
    if math.isnan(seconds):
        return "some time"
    if seconds < 1.5:
        return "a second"
    for size, name in ((86400 * 2, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / (86400 if name == 'd' else size):.1f} {name}"
    return f"{seconds:.0f} s"
