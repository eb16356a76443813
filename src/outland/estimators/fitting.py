"""A table into a model: trained as any run, then assessed on held-out rows with ERM beside it."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from outland.devices import one_thread
from outland.errors import OutlandError
from outland.graphs import Cache, Splits
from outland.models import Assessment, TrainedModel, evaluate_models, load_model
from outland.models.summary import ShiftSummary
from outland.recipes import Recipe
from outland.shift.two_sample import fast_shift
from outland.spec import RunSpec, load_splits
from outland.storage.raw_files import DataFolder
from outland.training.callbacks import Callback
from outland.training.run_folder import RunFolder
from outland.training.runs import run

REFERENCE = "erm"


@dataclass(frozen=True)
class FitResult:
    """A fitted model.

    Args:
        model: with its assessment.
        reference: ERM, trained in the same way; None where the model is ERM itself or none was asked for.
        seconds: in all.
    """

    model: TrainedModel
    reference: TrainedModel | None
    seconds: float


def fit(
    spec: RunSpec,
    runs: Path | str,
    *,
    compare: bool = True,
    recipe: Recipe | Literal["auto"] | None = "auto",
    device: str = "cpu",
    cache: Cache | None = None,
    data: DataFolder | None = None,
    callback: Callback | None = None,
) -> FitResult:
    """Train on `train`, select the epoch and calibrate on `val`, assess on both and on `test`, which selects nothing.

    Runs that are finished in `runs` are taken from there, and interrupted ones go on, so that the same call resumes
    after a crash.

    Args:
        spec: of the model.
        runs: folder of runs.
        compare: train ERM too, to compare with.
        recipe: of ERM's settings, as in `RunSpec.make`.
        device, cache, data, callback: as in `run`.
    """
    started = time.perf_counter()
    specs = [spec]
    if compare and spec.method != REFERENCE:
        specs.append(reference_spec(spec, recipe))
    where: dict[str, Any] = {"device": device, "cache": cache, "data": data, "callback": callback}
    with one_thread():
        models = [_run_model(each, runs, **where) for each in specs]
    splits = load_splits(spec, cache=cache, data=data)
    model = replace(models[0], assessment=assess(models, splits, spec.seed))
    return FitResult(model, models[1] if len(models) > 1 else None, time.perf_counter() - started)


def _run_model(spec: RunSpec, runs: Path | str, *, device: str, **where: Any) -> TrainedModel:
    """The model of a run, which is resumed, or begun anew if it is finished and its model is gone."""
    folder = RunFolder(runs, spec)
    lost = folder.record_path.exists() and not (folder.path / "model").is_dir()
    run(spec, runs, resume=not lost, force=lost, device=device, **where)
    model = load_model(folder.path, device, trust_code=bool(spec.code))  # a method that the user has named himself
    if model.spec.key != spec.key:
        raise OutlandError(f"{folder.path} holds the model of another run: delete it, or choose another --runs")
    return model


def reference_spec(spec: RunSpec, recipe: Recipe | Literal["auto"] | None = "auto") -> RunSpec:
    """ERM with the recipe's settings, on the same data, network and training loop."""
    which: dict[str, Any] = {"domain": spec.domain, "kind": spec.kind, "table": spec.table, "recipe": recipe}
    erm = RunSpec.make(spec.dataset, REFERENCE, data_checksum=spec.data_checksum, **which)
    return replace(spec, method=erm.method, method_params=erm.method_params, preset="", code="")


def assess(models: list[TrainedModel], splits: Splits, seed: int) -> Assessment:
    """Scores of the first model, beside the second, on validation and held-out rows; how far the latter are."""
    scores = [score for part in ("val", "test") for score in evaluate_models(models, splits.part(part), part, seed)]
    model, held_out = models[0], splits.part("test")
    distances = model.predict(held_out).distances
    share_far = None
    if distances is not None and model.distance is not None:
        flags = model.distance.flags(distances)
        share_far = flags.count("far") / len(flags)
    return Assessment(scores=scores, share_far=share_far, shift=_shift(model, splits, seed))


def _shift(model: TrainedModel, splits: Splits, seed: int) -> ShiftSummary | None:
    """A two-sample test of training and held-out rows, to compare new tables with; None where they are too few."""
    try:
        result = fast_shift(model, splits.part("test"), seed)
    except OutlandError:
        return None
    return ShiftSummary(auc=result.auc, null=result.null[1])
