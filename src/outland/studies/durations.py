"""Estimated durations of runs: measured once for datasets of several sizes, and scaled to this machine."""

import json
import math
import timeit
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import torch

from outland.devices import one_thread
from outland.graphs import Batches, Features, PackedGraphs, Schema, Task
from outland.methods import Progress, build_method, method_settings
from outland.nn import BackboneSettings
from outland.recipes import DatasetSize, recipe_for
from outland.spec import RunSpec, TrainSettings
from outland.training.stepper import Stepper

UNKNOWN = DatasetSize(train=1000, scored=1000, nodes=20.0, edges=50.0)  # of a dataset without a recipe
_REFERENCE = DatasetSize(train=0, scored=0, nodes=17.0, edges=48.0)


@lru_cache
def _resource(name: str) -> Any:
    return json.loads(files("outland.studies").joinpath(name).read_text(encoding="utf-8"))


def method_costs() -> dict[str, float]:
    """Time of a training step relative to ERM's, by method, from the benchmark of speed on Motif."""
    costs: dict[str, float] = _resource("method-costs.json")
    return costs


def estimate_seconds(spec: RunSpec, speed: float = 1.0) -> float:
    """Estimated seconds of a run, where this machine takes `speed` times as long as that of the measurements."""
    recipe = recipe_for(spec.dataset)
    size = (recipe and recipe.dataset_size(spec.dataset, spec.domain, spec.kind)) or UNKNOWN
    limit = spec.data.limit or 10**9
    train, scored = min(size.train, limit), min(size.scored, 4 * limit)
    step, forward = graph_seconds(size, spec.backbone)
    return speed * run_seconds(spec.method, spec.train.epochs, train * step, scored * forward)


def run_seconds(method: str, epochs: int, train: float, scored: float) -> float:
    """Seconds of a run, from the seconds that ERM takes for an epoch's training and for its scoring."""
    cost = method_costs().get(method, 1.0)
    return epochs * (train * cost + scored * math.sqrt(cost))


def graph_seconds(size: DatasetSize, backbone: BackboneSettings) -> tuple[float, float]:
    """Seconds a graph of ERM's training step, and of its forward pass: so much a graph, a node and an edge."""
    units = _resource("unit-costs.json")
    rates = units["rates"]
    work = size.nodes * rates["node"] + size.edges * rates["edge"]
    scale = (backbone.width / 300) ** rates["width_power"] * backbone.layers / 4 * units["backbones"][backbone.kind]
    step = work * scale + rates["graph"]
    return step, step * rates["forward"]


@lru_cache
def calibrate(device: torch.device | str = "cpu") -> float:
    """Seconds of this machine for one second of the machine of the measurements, from a second of work."""
    reference: float = _resource("unit-costs.json")["reference_seconds"]
    with one_thread():  # as measured; and several wait for each other where cores are shared
        return time_steps(_REFERENCE, BackboneSettings(), device=device)[0] / reference


def time_steps(
    size: DatasetSize,
    backbone: BackboneSettings,
    graphs: int = 32,
    repeats: int = 6,
    device: torch.device | str = "cpu",
) -> tuple[float, float]:
    """Seconds a graph of ERM's training step and forward pass, on random graphs of that size; the fastest counts."""
    schema = Schema(Features(3), Task("multiclass", 3, "accuracy"))
    packed = random_graphs(size, graphs).to(device)
    method = build_method("erm", schema, backbone, method_settings("erm", {})).to(device)
    stepper = Stepper(method, TrainSettings())
    batch = next(iter(Batches(packed, torch.arange(graphs), graphs)))

    def fastest(work: Callable[[], Any]) -> float:
        def waited() -> None:
            work()
            if torch.device(device).type == "cuda":
                torch.cuda.synchronize()

        return min(timeit.repeat(waited, number=1, repeat=repeats)) / graphs

    step = fastest(lambda: stepper.step(batch, Progress()))
    method.eval()
    with torch.inference_mode():
        return step, fastest(lambda: method(batch))


def random_graphs(size: DatasetSize, count: int) -> PackedGraphs:
    """So many graphs with as many nodes, and about as many edges, as `size` says."""
    generator = torch.Generator().manual_seed(0)
    nodes, pairs = round(size.nodes), round(size.edges / 2)
    graphs = []
    for _ in range(count):
        ends = torch.randint(nodes, (2, pairs), generator=generator)
        edges = torch.cat([ends, ends.flip(0)], 1).unique(dim=1)
        x = torch.rand(nodes, 3, generator=generator)
        graphs.append(SimpleNamespace(x=x, edge_index=edges, y=torch.tensor([0])))  # importing PyG takes seconds
    return PackedGraphs.from_data_list(graphs)


def format_duration(seconds: float) -> str:
    """A duration as people say it.

    >>> format_duration(75), format_duration(7200), format_duration(12), format_duration(0.2)
    ('1.2 min', '2.0 h', '12 s', 'a second')
    """
    if math.isnan(seconds):
        return "some time"
    if seconds < 1.5:
        return "a second"
    for least, unit, name in ((2 * 86400, 86400, "d"), (3600, 3600, "h"), (60, 60, "min")):
        if seconds >= least:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} s"
