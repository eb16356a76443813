"""Graph classification that holds up on graphs unlike the training ones."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from outland.datasets import Dataset, find_dataset
    from outland.errors import OutlandError
    from outland.estimators import GraphClassifier, GraphRegressor, fit, scaffold_groups
    from outland.graphs import GraphBatch, PackedGraphs, Schema, Splits, Task
    from outland.methods import Method, MethodSettings, Phase, Progress
    from outland.models import TrainedModel, evaluate_models, load_model, save_model
    from outland.shift import ShiftSettings, measure_shift
    from outland.spec import RunSpec, load_splits
    from outland.studies import find_study
    from outland.training import RunRecord, Trainer, run, run_fleet

_MODULES = {  # imported when a name is asked for, so that `import outland` takes no time
    "datasets": ("Dataset", "find_dataset"),
    "errors": ("OutlandError",),
    "estimators": ("GraphClassifier", "GraphRegressor", "fit", "scaffold_groups"),
    "graphs": ("GraphBatch", "PackedGraphs", "Schema", "Splits", "Task"),
    "methods": ("Method", "MethodSettings", "Phase", "Progress"),
    "models": ("TrainedModel", "evaluate_models", "load_model", "save_model"),
    "shift": ("ShiftSettings", "measure_shift"),
    "spec": ("RunSpec", "load_splits"),
    "studies": ("find_study",),
    "training": ("RunRecord", "Trainer", "run", "run_fleet"),
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'outland' has no attribute '{name}'")
    return getattr(import_module(f"outland.{_NAMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
