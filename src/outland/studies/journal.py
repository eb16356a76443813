"""The trials of a search, in an Optuna journal that several processes share and that outlives them all."""

import itertools
import math
import random
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from outland.errors import CannotWrite, OutlandError
from outland.storage.files import writable_folder

Params = dict[str, Any]
Space = Mapping[str, tuple[Any, ...]]


class Journal:
    """The trials of a search over `space`, whose first values are tried first; no trial is pruned in the warmup.

    Their number changes under a lock, so that the budget, which all processes share, is kept exactly.
    """

    def __init__(self, folder: Path, space: Space, budget: int, warmup_epochs: int) -> None:
        self.folder, self.space, self.budget = folder, space, min(budget, math.prod(map(len, space.values())))
        self.lock, self._process = FileLock(folder / ".lock"), uuid.uuid4().hex
        processes = writable_folder(folder / "processes")
        self._alive = FileLock(processes / self._process)  # held for as long as this process lives
        self._study = open_optuna_study(folder, warmup_epochs)

    def __enter__(self) -> "Journal":
        self._alive.acquire()
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        self._alive.release()
        Path(self._alive.lock_file).unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise CannotWrite(f"cannot write to {self.folder}: {problem.strerror or problem}") from None

    def next_trial(self) -> Any:
        """A new Optuna trial; None when the budget is spent."""
        import optuna

        choices = {name: optuna.distributions.CategoricalDistribution(values) for name, values in self.space.items()}
        with self.lock:
            self._requeue_abandoned()
            tried = [trial.params for trial in self._budgeted()]
            if len(tried) >= self.budget:
                return None
            if not tried:
                self._study.enqueue_trial({name: values[0] for name, values in self.space.items()}, skip_if_exists=True)
            trial = self._study.ask(choices)
            if trial.params in tried:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
                self._study.enqueue_trial(self._untried(tried))
                trial = self._study.ask(choices)
            trial.set_user_attr("process", self._process)
            return trial

    def finish_trial(self, trial: Any, value: float | None = None, epochs: int = 0, error: str | None = None) -> None:
        """End a trial: with a value, with an error, or pruned, with neither."""
        import optuna

        states = optuna.trial.TrialState
        trial.set_user_attr("epochs", epochs)
        if error is not None:
            trial.set_user_attr("error", error)
        state = states.FAIL if error is not None else states.PRUNED if value is None else states.COMPLETE
        self._study.tell(trial, value, state=state)

    def trials(self) -> list[dict[str, Any]]:
        """The trials as plain values, best first."""
        trials = [
            {
                "number": number,
                "state": "failed" if trial.state.name == "FAIL" else trial.state.name.lower(),
                "value": trial.value if trial.state.name == "COMPLETE" else None,
                "params": trial.params,
                **{name: trial.user_attrs.get(name) for name in ("slug", "epochs", "error")},
            }
            for number, trial in enumerate(self._budgeted(), 1)
        ]
        return sorted(trials, key=lambda row: -math.inf if row["value"] is None else row["value"], reverse=True)

    def _budgeted(self) -> list[Any]:
        """Trials that count towards the budget: those that were not queued again under another number."""
        return [
            trial
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state.name in ("COMPLETE", "PRUNED", "RUNNING") or "error" in trial.user_attrs
        ]

    def _requeue_abandoned(self) -> None:
        """Queue the trials of processes that have ended again; they resume from their last checkpoints."""
        import optuna

        for trial in self._study.get_trials(deepcopy=False):
            if trial.state.name != "RUNNING" or self._is_alive(trial.user_attrs.get("process", "")):
                continue
            before = max([float(trial.user_attrs.get("before", "-inf")), *trial.intermediate_values.values()])
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if trial.params:
                self._study.enqueue_trial(trial.params, user_attrs={"before": str(before)})

    def _is_alive(self, process: str) -> bool:
        path = self.folder / "processes" / process
        if process == self._process:
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

    def _untried(self, tried: list[Params]) -> Params:
        every = [dict(zip(self.space, values, strict=True)) for values in itertools.product(*self.space.values())]
        return random.choice([params for params in every if params not in tried])


def open_optuna_study(folder: Path, warmup_epochs: int) -> Any:
    """The Optuna study in the journal of a folder, new or as it was left."""
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise OutlandError("a search needs Optuna: pip install 'outland[tune]'") from None
    journal = writable_folder(folder) / "journal.log"
    lock = FileLock(f"{journal}.lock")  # unlike Optuna's own, it is released when its holder is killed
    _truncate_partial_line(journal, lock)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            study_name="search",
            storage=optuna.storages.JournalStorage(JournalFileBackend(str(journal), lock_obj=lock)),
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=warmup_epochs),
        )
    except OSError as problem:
        raise CannotWrite(f"cannot write {journal}: {problem.strerror or problem}") from None
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise OutlandError(f"{journal} is not the journal of a search: move it away and search again") from None


def _truncate_partial_line(journal: Path, lock: FileLock) -> None:
    """Cut off a last line that was half-written when the disk was full or the process killed: no line may follow it."""
    with lock:
        content = journal.read_bytes() if journal.exists() else b""
        if not content.endswith(b"\n"):
            with journal.open("ab") as stream:
                stream.truncate(content.rfind(b"\n") + 1)
