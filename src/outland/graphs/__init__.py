"""A set of graphs as flat tensors, the batch every model reads, splits and environments, the cache on disk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outland.graphs.batch import GraphBatch
    from outland.graphs.batches import Batches, Layout
    from outland.graphs.cache import Cache
    from outland.graphs.packed import PackedGraphs
    from outland.graphs.schema import Features, Metric, Schema, Task
    from outland.graphs.splits import PARTS, Splits
    from outland.ops import BatchShape

_MODULES = {  # imported when a name is asked for: processes that read molecules need no PyTorch
    "graphs.batch": ("GraphBatch",),
    "graphs.batches": ("Batches", "Layout"),
    "graphs.cache": ("Cache",),
    "graphs.packed": ("PackedGraphs",),
    "graphs.schema": ("Features", "Metric", "Schema", "Task"),
    "graphs.splits": ("PARTS", "Splits"),
    "ops": ("BatchShape",),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'outland.graphs' has no attribute '{name}'")
    return getattr(import_module(f"outland.{_NAMES[name]}"), name)
