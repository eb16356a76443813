"""A search for a method's settings: trials are ordinary runs, listed in a journal.

Trials are compared on the validation part beyond the shift. The test part is never looked at.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import Cache
from outland.methods import find_method
from outland.settings import change
from outland.spec import RunSpec, load_splits
from outland.stopping import Stopped, is_stopping, stop_on_sigterm
from outland.storage.files import write_text
from outland.studies.journal import Journal, Params, score_before
from outland.training import run
from outland.training.callbacks import Callback
from outland.training.run_folder import RunFolder
from outland.workers import map_ordered

COMMON = {"lr": (1e-2, 5e-3, 1e-3)}  # searched for every method whose own space does not say otherwise


class Pruned(Exception):
    """A trial is behind the others and is given up."""


@dataclass(frozen=True)
class Search:
    """A search over a method's own space, from the settings of `base`, which are always tried first."""

    base: RunSpec  # the run that every trial is a variant of
    trials: int  # settings that are tried, by all processes together; fewer where the space has no more
    out: Path  # folder of searches

    @property
    def folder(self) -> Path:
        """The folder of the journal, the report and the trials' runs."""
        return self.out / self.base.slug

    def space(self) -> dict[str, tuple[Any, ...]]:
        """Values by setting, the value of `base` first."""
        space: Mapping[str, tuple[Any, ...]] = {**COMMON, **find_method(self.base.method).space}
        params = self.base.method_params
        return {name: tuple(dict.fromkeys((getattr(params, name), *values))) for name, values in space.items()}

    def spec(self, params: Params) -> RunSpec:
        """The spec of a trial's run."""
        return replace(self.base, method_params=change(self.base.method_params, params, "method"))

    def journal(self) -> Journal:
        """The journal of this search."""
        return Journal(self.folder, self.space(), self.trials, warmup_epochs=self.base.train.epochs // 5)

    def report(self) -> dict[str, Any]:
        """The trials so far, and the best of them, as plain values."""
        with self.journal() as journal:
            return self._report(journal)

    def run(self, workers: int = 1, **options: Any) -> None:
        """`run_trials` in several processes at once, or in this one."""
        if workers == 1:
            self.run_trials(**options)
            return
        device = find_device(options.get("device", "auto"))
        if device.type != "cpu":
            raise OutlandError("--workers is for a CPU: on a GPU start the same command once for each device")
        self.journal()  # creates its files
        load_splits(self.base, device, options.get("cache"), options.get("data"))  # puts them into the cache
        with stop_on_sigterm():  # it is passed on to the workers, which end their epochs
            for _ in map_ordered(partial(_run_trials, self, options), range(workers), workers):
                pass

    def run_trials(self, *, device: str = "auto", cache: Cache | None = None, data: DataFolder | None = None) -> None:
        """Run trials until all are done, or taken by other processes; then write the report."""
        runs = self.folder / "runs"
        with self.journal() as journal:
            while not is_stopping() and (trial := journal.next_trial()) is not None:
                spec, callback = self.spec(trial.params), PruningCallback(trial)
                trial.set_user_attr("slug", spec.slug)
                try:
                    record = run(spec, runs, resume=True, device=device, cache=cache, data=data, callback=callback)
                    value = validation_score(record.selection[record.selected], record.metric)
                    journal.finish_trial(trial, value=value, epochs=len(record.curves))
                except Pruned:
                    RunFolder(runs, spec).checkpoints.clear()
                    journal.finish_trial(trial, epochs=callback.epochs)
                except (CannotWrite, Stopped):
                    raise  # it is not the settings that failed: the trial goes on, or begins again, next time
                except OutlandError as problem:
                    journal.finish_trial(trial, error=str(problem))
            with journal.lock():  # so that a later report is never overwritten by an earlier one
                write_text(self.folder / "search.json", json.dumps(self._report(journal), indent=1) + "\n")

    def _report(self, journal: Journal) -> dict[str, Any]:
        trials = journal.trials()
        done = sum(trial["state"] != "running" for trial in trials)
        return {
            "format": 1,
            "spec": self.base.to_json(),
            "space": self.space(),
            "budget": max(self.trials, len(trials)),  # an earlier call may have asked for more
            "finished": done >= max(journal.budget, len(trials)),
            "best": trials[0] if trials and trials[0]["value"] is not None else None,
            "trials": trials,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }


def _run_trials(search: Search, options: dict[str, Any], worker: int) -> None:
    with suppress(Stopped):  # others may still be at it
        search.run_trials(**options)


class PruningCallback(Callback):
    """Reports the scores of a trial, and raises `Pruned` when it is behind the median of the others."""

    def __init__(self, trial: Any) -> None:
        self._trial, self.epochs = trial, 0
        self._best = score_before(trial)

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Compare the best score so far, which is that of the selected model."""
        self.epochs = row["epoch"] + 1
        self._best = max(self._best, validation_score(row, metric))
        self._trial.report(self._best, row["epoch"])
        if self._trial.should_prune():
            raise Pruned


def validation_score(scores: Mapping[str, Any], metric: str) -> float:
    """The score that trials are compared by: validation beyond the shift; larger is better."""
    part = next((part for part in ("val", "id_val") if part in scores), None)
    if part is None:
        raise OutlandError("a search compares trials on a validation part, and this data has none")
    score = scores[part] if not isinstance(scores[part], Mapping) else scores[part][metric]
    if score is None:
        raise OutlandError(f"the part '{part}' has no {metric}, so trials cannot be compared on it")
    return -score if metric == "rmse" else float(score)
