"""What runs ask of a GPU: estimated from measurements on one H200."""

import json
import math
from functools import lru_cache
from importlib.resources import files
from typing import Any

from outland.datasets import find_dataset
from outland.recipes import DatasetSize, recipe_for
from outland.spec import RunSpec
from outland.training.scheduler import Load

_UNKNOWN = DatasetSize(train=1000, scored=1000, nodes=20.0, edges=50.0)  # of a dataset without a recipe


@lru_cache
def _costs() -> Any:
    return json.loads(files("outland.studies").joinpath("gpu-costs.json").read_text(encoding="utf-8"))


def gpu_load(spec: RunSpec) -> Load:
    """Seconds of the whole device that a run takes among others, and the share of the device that it uses alone."""
    recipe = recipe_for(spec.dataset)
    size = (recipe and recipe.dataset_size(spec.dataset, spec.domain, spec.kind)) or _UNKNOWN
    limit = spec.data.limit or 10**9
    train, scored = min(size.train, limit), min(size.scored, 4 * limit)
    batch, steps = min(spec.train.batch_size, train), math.ceil(train / spec.train.batch_size)
    costs = _costs()
    cost = costs["methods"].get(spec.method, 1.0)
    step = cost * _step_ms(spec, size, batch)
    scoring = costs["forward"] * math.sqrt(cost) * _step_ms(spec, size, scored, floor=False)
    seconds = costs["seconds_a_run"] + spec.train.epochs * (steps * step + scoring) / 1000
    return Load(seconds, _share(spec, size, batch))


def _step_ms(spec: RunSpec, size: DatasetSize, graphs: int, floor: bool = True) -> float:
    """Milliseconds of ERM's step on so many graphs: of the launches at least, else so much a node and an edge."""
    rates = _costs()["step"]
    width = (spec.backbone.width / 300) ** rates["width_power"] * spec.backbone.layers / 4
    edge = rates["edge_feature"] if _has_edge_features(spec.dataset) else rates["edge"]
    work = graphs * (size.nodes * rates["node"] + size.edges * edge) * width
    return float(max(work, rates["floor"]) if floor else work)


def _share(spec: RunSpec, size: DatasetSize, graphs: int) -> float:
    """The share of the device that a run uses alone, by the rows of its batch."""
    share = _costs()["share"]
    rows = graphs * size.nodes * spec.backbone.width / 300
    return float(min(1.0, share["floor"] * max(1.0, rows / share["rows"]) ** share["power"]))


def _has_edge_features(dataset: str) -> bool:
    schema = getattr(find_dataset(dataset), "schema", None)
    return schema is not None and schema.edge is not None
