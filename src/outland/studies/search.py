"""A search for a method's settings: trials in a journal that several processes share and that outlives them all.

Trials are compared on the validation part beyond the shift. The test part is never looked at.
"""

import itertools
import json
import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from outland.datasets import DataFolder
from outland.devices import find_device
from outland.errors import CannotWrite, OutlandError
from outland.graphs import Cache
from outland.methods import find_method
from outland.settings import change
from outland.spec import load_splits
from outland.storage.files import writable_folder, write_text
from outland.training import RunRecord, RunSpec, run
from outland.training.callbacks import Callback
from outland.training.run_folder import RunFolder
from outland.workers import map_ordered

COMMON = {"lr": (1e-2, 5e-3, 1e-3)}  # searched for every method whose own space does not say otherwise
Params = dict[str, Any]


class Pruned(Exception):
    """A trial has fallen behind the others and is given up."""


@dataclass(frozen=True)
class Search:
    """A search over a method's own space, from the settings of `base`, which are always tried first.

    Args:
        base: the run that every trial is a variant of.
        trials: how many settings are tried, by all processes together; fewer where the space has no more.
        out: folder of searches.
    """

    base: RunSpec
    trials: int
    out: Path

    @property
    def folder(self) -> Path:
        """Where the journal, the report and the runs of the trials are."""
        return self.out / self.base.slug

    def space(self) -> dict[str, tuple[Any, ...]]:
        """Values by setting; those of `base` are among them."""
        own: Mapping[str, tuple[Any, ...]] = {**COMMON, **find_method(self.base.method).space}
        return {name: tuple(dict.fromkeys((getattr(self.base.method_params, name), *own[name]))) for name in own}

    def spec(self, params: Params) -> RunSpec:
        """The run of a trial."""
        return replace(self.base, method_params=change(self.base.method_params, params, "method"))

    def report(self) -> dict[str, Any]:
        """What has been tried, and the best of it, as plain values; nothing is written."""
        with _Journal(self) as journal:
            return journal.report()

    def work(self, workers: int = 1, **where: Any) -> None:
        """`go_on` in several processes at once, or in this one."""
        if workers == 1:
            self.go_on(**where)
            return
        device = find_device(where.get("device", "auto"))
        if device.type != "cpu":
            raise OutlandError("--workers is for a CPU: on a GPU start the same command once for each device")
        _open(self)
        load_splits(self.base, device, where.get("cache"), where.get("data"))  # so that the others find it prepared
        for _ in map_ordered(partial(_join, self, where), range(workers), workers):
            pass

    def go_on(self, *, device: str = "auto", cache: Cache | None = None, data: DataFolder | None = None) -> None:
        """Carry out trials until all are done, or taken by other processes; then write the report."""
        with _Journal(self) as journal:
            while (trial := journal.take()) is not None:
                callback = _Racer(trial)
                spec = self.spec(trial.params)
                try:
                    record = run(
                        spec,
                        self.folder / "runs",
                        resume=True,
                        device=device,
                        cache=cache,
                        data=data,
                        callback=callback,
                    )
                    journal.close(trial, value=_worth(record), epochs=len(record.curves))
                except Pruned:
                    RunFolder(self.folder / "runs", spec).checkpoints.clear()
                    journal.close(trial, epochs=callback.epochs)
                except CannotWrite:
                    raise  # it is not the settings that failed: the trial is begun again next time
                except OutlandError as problem:
                    journal.close(trial, error=str(problem))
            journal.write_report()


def _join(search: Search, where: dict[str, Any], place: int) -> None:
    search.go_on(**where)


class _Racer(Callback):
    """Tells the others how far a trial is, and stops it when it is behind the median of them."""

    def __init__(self, trial: Any) -> None:
        self._trial, self.epochs = trial, 0
        self._best = float(trial.user_attrs.get("before", "-inf"))  # of an attempt that was killed

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Compare the best score so far, which is what selection would keep."""
        self.epochs = row["epoch"] + 1
        self._best = max(self._best, _signed(row, metric))
        self._trial.report(self._best, row["epoch"])
        if self._trial.should_prune():
            raise Pruned


def _signed(scores: Mapping[str, Any], metric: str) -> float:
    """The score that trials are compared by: validation beyond the shift, larger is better."""
    part = next((part for part in ("val", "id_val") if part in scores), None)
    if part is None:
        raise OutlandError("a search compares trials on a validation part, and this data has none")
    score = scores[part] if not isinstance(scores[part], Mapping) else scores[part][metric]
    if score is None:
        raise OutlandError(f"the part '{part}' has no {metric}, so trials cannot be compared on it")
    return -score if metric == "rmse" else float(score)


def _worth(record: RunRecord) -> float:
    return _signed(record.selection[record.selected], record.metric)


class _Journal:
    """The trials of a search. What changes their number happens under a lock, so that the budget is kept exactly."""

    def __init__(self, search: Search) -> None:
        self.search, self._me = search, uuid.uuid4().hex
        writable_folder(search.folder / "processes")
        self._lock = FileLock(search.folder / ".lock")
        self._alive = FileLock(search.folder / "processes" / self._me)  # held for as long as this process lives
        self._study = _open(search)

    def __enter__(self) -> "_Journal":
        self._alive.acquire()
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        self._alive.release()
        Path(self._alive.lock_file).unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise CannotWrite(f"cannot write to {self.search.folder}: {problem.strerror or problem}") from None

    def take(self) -> Any:
        """The next trial; None when there is none left to take."""
        import optuna

        space = self.search.space()
        choices = {name: optuna.distributions.CategoricalDistribution(values) for name, values in space.items()}
        with self._lock:
            self._bury()
            tried = [trial.params for trial in self._counted()]
            if len(tried) >= self.search.trials or len(tried) >= _size(space):
                return None
            if not tried:
                self._study.enqueue_trial({name: values[0] for name, values in space.items()}, skip_if_exists=True)
            trial = self._study.ask(choices)
            if trial.params in tried:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
                self._study.enqueue_trial(_untried(space, tried))
                trial = self._study.ask(choices)
            trial.set_user_attr("process", self._me)
            trial.set_user_attr("slug", self.search.spec(trial.params).slug)
            return trial

    def close(self, trial: Any, value: float | None = None, epochs: int = 0, error: str | None = None) -> None:
        """A trial is over: with a value, with an error, or with neither, given up half-way."""
        import optuna

        states = optuna.trial.TrialState
        trial.set_user_attr("epochs", epochs)
        if error is not None:
            trial.set_user_attr("error", error)
        state = states.FAIL if error is not None else states.PRUNED if value is None else states.COMPLETE
        self._study.tell(trial, value, state=state)

    def report(self) -> dict[str, Any]:
        """The search as plain values, best trials first."""
        rows = [
            {
                "number": number,
                "state": "failed" if trial.state.name == "FAIL" else trial.state.name.lower(),
                "value": trial.value if trial.state.name == "COMPLETE" else None,
                "params": trial.params,
                **{name: trial.user_attrs.get(name) for name in ("slug", "epochs", "error")},
            }
            for number, trial in enumerate(self._counted(), 1)
        ]
        rows.sort(key=lambda row: -float("inf") if row["value"] is None else row["value"], reverse=True)
        space = self.search.space()
        done = [row for row in rows if row["state"] != "running"]
        return {
            "format": 1,
            "spec": self.search.base.to_json(),
            "space": space,
            "budget": max(self.search.trials, len(rows)),  # an earlier call may have asked for more
            "finished": len(done) >= min(max(self.search.trials, len(rows)), _size(space)),
            "best": rows[0] if rows and rows[0]["value"] is not None else None,
            "trials": rows,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    def write_report(self) -> None:
        """Write the report; under the lock, so that a later one is never overwritten by an earlier."""
        with self._lock:
            write_text(self.search.folder / "search.json", json.dumps(self.report(), indent=1) + "\n")

    def _counted(self) -> list[Any]:
        """Trials that are part of the budget: those that were not begun again under another number."""
        return [
            trial
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state.name in ("COMPLETE", "PRUNED", "RUNNING") or "error" in trial.user_attrs
        ]

    def _bury(self) -> None:
        """Trials of processes that are gone are tried again, from their last checkpoints."""
        import optuna

        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.name != "RUNNING" or self._lives(trial.user_attrs.get("process", "")):
                continue
            before = max([float(trial.user_attrs.get("before", "-inf")), *trial.intermediate_values.values()])
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if trial.params:
                self._study.enqueue_trial(trial.params, user_attrs={"before": str(before)})

    def _lives(self, process: str) -> bool:
        path = self.search.folder / "processes" / process
        if process == self._me:
            return True
        if not process or not path.exists():
            return False
        try:
            with FileLock(path, timeout=0):
                pass
        except Timeout:
            return True
        path.unlink(missing_ok=True)
        return False


def _open(search: Search) -> Any:
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise OutlandError("a search needs Optuna: pip install 'outland[tune]'") from None
    journal = writable_folder(search.folder) / "journal.log"
    lock = FileLock(f"{journal}.lock")  # unlike Optuna's own, it is released when its holder is killed
    _mend(journal, lock)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            study_name="search",
            storage=optuna.storages.JournalStorage(JournalFileBackend(str(journal), lock_obj=lock)),
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=search.base.train.epochs // 5),
        )
    except OSError as problem:
        raise CannotWrite(f"cannot write {journal}: {problem.strerror or problem}") from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise OutlandError(f"{journal} is not the journal of a search: move it away and search again") from None


def _mend(journal: Path, lock: FileLock) -> None:
    """Cut off a last line that was half-written when the disk was full or the process killed: no line may follow it."""
    with lock:
        written = journal.read_bytes() if journal.exists() else b""
        if not written.endswith(b"\n"):
            with journal.open("ab") as stream:
                stream.truncate(written.rfind(b"\n") + 1)


def _size(space: Mapping[str, tuple[Any, ...]]) -> int:
    """How many settings there are to try."""
    count = 1
    for values in space.values():
        count *= len(values)
    return count


def _untried(space: Mapping[str, tuple[Any, ...]], tried: list[Params]) -> Params:
    """Settings that were not tried yet."""
    every = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    return random.choice([params for params in every if params not in tried])
