"""The trials of a search, in an Optuna journal that several processes share and that outlives them all."""

import itertools
import math
import os
import random
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from filelock import BaseFileLock
from pydantic import BaseModel, ConfigDict

from outland.errors import OutlandError, cannot_write, printable
from outland.storage.files import open_regular, refuse_symlink, writable_folder
from outland.storage.locks import acquire, is_held, locked

Params = dict[str, Any]
Space = Mapping[str, tuple[Any, ...]]
JOURNAL = "journal.log"
MAX_JOURNAL = 1 << 28  # bytes; a trial of a hundred epochs has some 20,000
_PROCESS = re.compile(r"[0-9a-f]{32}")  # the name of a process, which is that of a file: nothing else may be
_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


class Journal:
    """The trials of a search over `space`, whose first values are tried first; no trial is pruned in the warmup.

    Their number changes under a lock, so that the budget, which all processes share, is kept exactly.
    """

    def __init__(self, folder: Path, space: Space, budget: int, warmup_epochs: int) -> None:
        self.folder, self.space, self.budget = folder, space, min(budget, math.prod(map(len, space.values())))
        self._process = uuid.uuid4().hex
        self._alive: BaseFileLock | None = None
        self._processes = folder / "processes"
        refuse_symlink(self._processes)
        writable_folder(self._processes)
        self._study = open_optuna_study(folder, warmup_epochs)

    def __enter__(self) -> "Journal":
        self._alive = acquire(self._processes / self._process)  # held for as long as this process lives
        return self

    def __exit__(self, kind: object, problem: object, trace: object) -> None:
        if self._alive is not None:
            self._alive.release()
        (self._processes / self._process).unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise cannot_write(f"to {self.folder}", problem) from None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the search; other processes wait for it."""
        with locked(self.folder / ".lock"):
            yield

    def next_trial(self) -> Any:
        """A new Optuna trial; None when the budget is spent."""
        import optuna

        choices = {name: optuna.distributions.CategoricalDistribution(values) for name, values in self.space.items()}
        with self.lock(), readable(self.folder / JOURNAL):
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
        with readable(self.folder / JOURNAL):
            trials = [TrialRow.of(number, trial).model_dump() for number, trial in enumerate(self._budgeted(), 1)]
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
            before = max([score_before(trial), *trial.intermediate_values.values()])
            self._study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            if trial.params:
                self._study.enqueue_trial(trial.params, user_attrs={"before": str(before)})

    def _is_alive(self, process: Any) -> bool:
        """Whether the process of this name holds its file, which is removed if it does not."""
        if process == self._process:
            return True
        if not isinstance(process, str) or not _PROCESS.fullmatch(process):
            return False
        path = self._processes / process
        if not os.path.lexists(path):
            return False
        if not path.is_symlink() and path.is_file() and is_held(path):
            return True
        path.unlink(missing_ok=True)
        return False

    def _untried(self, tried: list[Params]) -> Params:
        every = [dict(zip(self.space, values, strict=True)) for values in itertools.product(*self.space.values())]
        return random.choice([params for params in every if params not in tried])


class TrialRow(BaseModel):
    """A trial as the report of a search has it."""

    model_config = ConfigDict(strict=True)
    number: int
    state: Literal["complete", "pruned", "running", "failed", "waiting"]
    value: float | None
    params: dict[str, bool | int | float | str | None]
    slug: str | None = None
    epochs: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, number: int, trial: Any) -> "TrialRow":
        """The row of an Optuna trial; a `ValueError` where it is not of the right kind."""
        state: Any = "failed" if trial.state.name == "FAIL" else trial.state.name.lower()
        value = trial.value if state == "complete" else None
        named = {name: trial.user_attrs.get(name) for name in ("slug", "epochs", "error")}
        named |= {name: printable(text) for name, text in named.items() if isinstance(text, str)}
        return cls(number=number, state=state, value=value, params=trial.params, **named)


def score_before(trial: Any) -> float:
    """The best score of an attempt at a trial that was killed."""
    score = float(trial.user_attrs.get("before", "-inf"))
    return -math.inf if math.isnan(score) else score


@contextmanager
def readable(journal: Path) -> Iterator[None]:
    """Context in which what Optuna makes of a journal that is none becomes a sentence."""
    try:
        yield
    except OSError as problem:
        raise cannot_write(journal, problem) from None
    except _ERRORS as problem:
        reason = printable(" ".join(f"{type(problem).__name__} {problem}".split()), 200)
        raise OutlandError(
            f"{journal} is not the journal of a search ({reason}): move it away and search again"
        ) from None


def open_optuna_study(folder: Path, warmup_epochs: int) -> Any:
    """The Optuna study in the journal of a folder, new or as it was left."""
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise OutlandError("a search needs Optuna: pip install 'outland[tune]'") from None
    journal = writable_folder(folder) / JOURNAL
    lock = _JournalLock(folder / f"{JOURNAL}.lock")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with readable(journal):
        _truncate_partial_line(journal, lock)
        return optuna.create_study(
            study_name="search",
            storage=optuna.storages.JournalStorage(JournalFileBackend(str(journal), lock_obj=lock)),
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=warmup_epochs),
        )


class _JournalLock:
    """The lock that Optuna takes to append: unlike its own, it is released when its holder is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: BaseFileLock | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._lock = acquire(self._path)
        return True

    def release(self) -> None:
        """Let it go."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def _truncate_partial_line(journal: Path, lock: _JournalLock) -> None:
    """Cut off a last line that was half-written when the disk was full or the process killed: no line may follow it."""
    if not os.path.lexists(journal):
        return
    lock.acquire()
    try:
        with open_regular(journal) as stream:
            if os.fstat(stream.fileno()).st_size > MAX_JOURNAL:
                raise ValueError(f"it is larger than {MAX_JOURNAL:,} bytes")
            content = stream.read()
        if not content.endswith(b"\n"):
            os.truncate(journal, content.rfind(b"\n") + 1)
    finally:
        lock.release()
