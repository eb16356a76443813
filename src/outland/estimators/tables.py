"""From a table of SMILES with labels to a model, judged on scaffolds it has not seen, with ERM beside it."""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from outland.errors import OutlandError
from outland.estimators.base import QUICK_SHIFT
from outland.estimators.fitting import Plan, train_model
from outland.estimators.judging import Verdict, judge
from outland.estimators.model import FittedModel
from outland.estimators.seen import sorted_hashes
from outland.graphs import Splits
from outland.shift import measure_shift
from outland.storage.raw_files import DataFolder
from outland.tables import TableSettings
from outland.tables.smiles_table import SmilesTable
from outland.training.callbacks import Callback, format_score

REFERENCE = "erm"


@dataclass(frozen=True)
class Fitted:
    """What came out.

    Args:
        model: the model.
        reference: ERM, trained in the same way; None where the model is ERM itself or none was wanted.
        verdicts: on validation and held-out rows.
        seconds: in all.
    """

    model: FittedModel
    reference: FittedModel | None
    verdicts: tuple[Verdict, ...]
    seconds: float


def check_table(table: TableSettings) -> None:
    """Refuse what a model folder cannot hold."""
    if len(table.targets) > 1:
        raise OutlandError(
            "a model has one target: name one --target, and fit a model for each (outland train takes several)"
        )


def fit_splits(
    splits: Splits,
    table: TableSettings,
    plan: Plan,
    *,
    compare: bool = True,
    seed: int = 0,
    device: torch.device | str = "cpu",
    watch: Callback | None = None,
) -> Fitted:
    """Train on `train`, choose the epoch on `val`, judge on both and on `test`, by which nothing is chosen."""
    started = time.perf_counter()
    common: dict[str, Any] = {"kind": "molecules", "classes": _classes(splits), "seed": seed, "device": device}
    model = train_model(splits, plan, callback=watch, **common)
    reference = None
    if compare and plan.name != REFERENCE:
        own = Plan.make(REFERENCE)
        other = replace(plan, name=own.name, settings=own.settings)
        reference = train_model(splits, other, callback=watch, **common)
    models = [model] if reference is None else [model, reference]
    verdicts = tuple(judge(models, splits, part, seed) for part in ("val", "test"))
    about: dict[str, Any] = {
        "shift": splits.source["domain"],
        "source": _source(splits, table),
        "scores": [_row(verdict) for verdict in verdicts],
        "held_out": {**_far(model, splits), **_promise(verdicts[-1]), **_gcs(model, splits, seed)},
        "estimator": {**_estimator(plan, bool(model.classes)), "shift": _estimator_shift(splits), "random_state": seed},
    }
    model.about.update(about)
    used = splits.graphs.select(torch.cat([splits["train"], splits["val"]]))
    model = replace(model, seen=sorted_hashes(SmilesTable(table).smiles(used, DataFolder())))
    return Fitted(model, reference, verdicts, time.perf_counter() - started)


def _far(model: FittedModel, splits: Splits) -> dict[str, float]:
    flags = model.familiar.flags(model.answer(splits.part("test")).distances)
    return {"far": flags.count("far") / len(flags)}


def _promise(held: Verdict) -> dict[str, float]:
    """What probabilities said of held-out rows; nothing where there are none, or too few rows."""
    return {} if held.promise is None or held.scant else asdict(held.promise)


def _gcs(model: FittedModel, splits: Splits, seed: int) -> dict[str, float]:
    """How far the held-out rows are from training, as a yardstick for new tables; nothing where they are too few."""
    try:
        found = measure_shift(
            model.sample, splits.part("test"), schema=splits.schema, labels=False, settings=QUICK_SHIFT, seed=seed
        )
    except OutlandError:
        return {}
    return {"gcs": found.covariate.mean, "null": found.null.mean, "told_apart": found.accuracy.mean}


def _estimator(plan: Plan, classifies: bool) -> dict[str, Any]:
    """The arguments of an estimator that makes the same plan."""
    train = asdict(plan.train)
    epochs = train.pop("epochs")
    found = {
        "method": plan.name,
        "epochs": None if plan.auto_epochs else epochs,
        "settings": asdict(plan.settings),
        "backbone": asdict(plan.backbone),
        "train": train,
    }
    return {**found, "class_weight": "balanced" if plan.balance else None} if classifies else found


def _estimator_shift(splits: Splits) -> str:
    domain = splits.source["domain"]
    return domain if domain in ("scaffold", "size", "cluster", "random") else "auto"


def _classes(splits: Splits) -> tuple[Any, ...]:
    if splits.schema.task.kind == "regression":
        return ()
    return tuple(splits.source["classes"]) or ("0", "1")


def _source(splits: Splits, table: TableSettings) -> dict[str, Any]:
    source = splits.source
    return {
        "file": Path(table.file).name,
        "sha256": source.get("sha256"),
        "smiles": table.smiles,
        "target": table.targets[0],
        "rows": source["rows"],
        "used": source["used"],
        "set_aside": len(source["quarantine"]),
        "duplicates": source["duplicates"],
        "contradictions": source["contradictions"],
    }


def _row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as the model card has it."""
    first, metric = verdict.models[0], verdict.metric
    other = verdict.models[1] if len(verdict.models) > 1 and not verdict.scant else None
    low, high = format_score(first.low, metric), format_score(first.high, metric)
    value = verdict.scant or format_score(first.value, metric)
    return {
        "part": "validation" if verdict.part == "val" else "held out",
        "rows": verdict.rows,
        "groups": verdict.groups,
        "metric": metric,
        "value": first.value,
        "low": first.low,
        "high": first.high,
        "scant": verdict.scant,
        "shown": value,
        "interval": "–" if first.low is None or verdict.scant else f"{low} to {high}",
        "erm": "–" if other is None else format_score(other.value, metric),
    }
