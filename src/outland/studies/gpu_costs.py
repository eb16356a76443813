"""What runs ask of a GPU, by measurements on one H200."""

import json
import math
import time
from functools import lru_cache
from importlib.resources import files
from typing import Any

import torch

from outland.graphs import Features, Schema, Splits, Task
from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.recipes import DatasetSize, recipe_for
from outland.spec import RunSpec, TrainSettings
from outland.studies.durations import UNKNOWN, random_graphs
from outland.training.capture import wait_for
from outland.training.scheduler import Load
from outland.training.trainer import Trainer

_REFERENCE = DatasetSize(train=512, scored=0, nodes=17.0, edges=48.0)


@lru_cache
def _costs() -> Any:
    return json.loads(files("outland.studies").joinpath("gpu-costs.json").read_text(encoding="utf-8"))


def gpu_load(spec: RunSpec) -> Load:
    """Seconds of the whole device that a run and a step of it take among others, and the share that it uses alone."""
    costs = _costs()
    step, scoring = _erm_ms(spec)
    method = _method_costs(spec)
    step *= method.get("small" if step < 2 * costs["formula"]["floor_ms"] else "large", 1.0)
    scoring *= method.get("scoring", 1.0)
    size = _size(spec)
    steps = math.ceil(size.train / spec.train.batch_size)
    seconds = costs["seconds_a_run"] + spec.train.epochs * (steps * step + scoring) / 1000
    share, rows = costs["share"], min(spec.train.batch_size, size.train) * size.nodes * spec.backbone.width / 300
    used = min(1.0, share["floor"] * max(1.0, rows / share["rows"]) ** share["power"])
    return Load(seconds, used, step_seconds=seconds / (spec.train.epochs * steps))


def _method_costs(spec: RunSpec) -> dict[str, float]:
    """Step and evaluation relative to ERM's: on this dataset where that was measured, else of the preset or method."""
    methods: dict[str, dict[str, float]] = _costs()["methods"]
    names = (f"{spec.method}@{spec.dataset}", f"{spec.method}:{spec.preset}", spec.method)
    return next((methods[name] for name in names if name in methods), {})


def _size(spec: RunSpec) -> DatasetSize:
    """The size of a run's data, as far as it is known."""
    recipe = recipe_for(spec.dataset)
    size = (recipe and recipe.dataset_size(spec.dataset, spec.domain, spec.kind)) or UNKNOWN
    limit = spec.data.limit or 10**9
    return size.model_copy(update={"train": min(size.train, limit), "scored": min(size.scored, 4 * limit)})


def _erm_ms(spec: RunSpec) -> tuple[float, float]:
    """Milliseconds of ERM's step and evaluation: as measured in the recipe's setting, and scaled to this one."""
    step, scoring = _formula_ms(spec)
    measured = _costs()["erm"].get(f"{spec.dataset}-{spec.domain}-{spec.kind}")
    if measured is None:
        return step, scoring
    usual = _usual_formula_ms(spec.dataset, spec.domain, spec.kind)
    return measured["step_ms"] * step / usual[0], measured["evaluation_ms"] * scoring / usual[1]


@lru_cache
def _usual_formula_ms(dataset: str, domain: str, kind: str) -> tuple[float, float]:
    return _formula_ms(RunSpec.make(dataset, "erm", domain=domain, kind=kind))


def _formula_ms(spec: RunSpec) -> tuple[float, float]:
    """The same, from the numbers of nodes and edges: a small step takes the time of its launches."""
    rates, size = _costs()["formula"], _size(spec)
    width = (spec.backbone.width / 300) ** rates["width_power"] * spec.backbone.layers / 4
    graph = (size.nodes * rates["node_ms"] + size.edges * rates["edge_ms"]) * width
    step = max(rates["floor_ms"], min(spec.train.batch_size, size.train) * graph)
    return step, max(1e-6, rates["forward"] * size.scored * graph)


@lru_cache
def calibrate_gpu(device: torch.device) -> float:
    """Seconds of this GPU for one second of the GPU of the measurements, from a captured step."""
    graphs = random_graphs(_REFERENCE, 512).to(device)
    schema = Schema(Features(3), Task("multiclass", 3, "accuracy"))
    method = build_method("erm", schema, BackboneSettings(), method_settings("erm", {})).to(device)
    index = torch.arange(len(graphs))
    trainer = Trainer(method, Splits(graphs, {"train": index, "val": index}, schema), TrainSettings(batch_size=512))
    method.reseed(0, device)
    steps, best = trainer.new_steps(), math.inf
    for epoch in range(60):  # of one step each; the first is captured
        started = time.perf_counter()
        wait_for(trainer.capture.on_stream(steps.epoch(epoch, 60)))
        torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - started)
    trainer.capture.close()
    return float(1000 * best / _costs()["alone_ms"])
