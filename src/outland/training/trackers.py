"""Callbacks that log the curves of runs to TensorBoard, MLflow or Weights & Biases, beside the records.

An error of a tracker never stops a run: it is printed once, and the run goes on untracked.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from outland.errors import OutlandError, unknown
from outland.progress import say
from outland.spec import RunSpec
from outland.training.callbacks import Callback, CallbackWrapper


class Tracker(Protocol):
    """Logs the scalars of one run. Made from the run's spec and its folder when training starts or resumes."""

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Log the scalars of an epoch, by name."""

    def close(self) -> None:
        """End the log of the run."""


class _TensorBoard:
    """Event files in `tensorboard` below the run's folder: `tensorboard --logdir runs`."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(folder / "tensorboard")
        self._writer.add_text("settings", "\n".join(f"    {n}: {v}" for n, v in flatten(spec.to_json())))

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        self._writer.close()


class _MLflow:
    """A run of the experiment `outland` at `MLFLOW_TRACKING_URI`; an interrupted one is continued."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient()
        existing = self._client.get_experiment_by_name("outland")
        experiment = existing.experiment_id if existing else self._client.create_experiment("outland")
        runs = self._client.search_runs([experiment], f"tags.`outland.folder` = '{folder.resolve()}'")
        if runs:
            self._run = runs[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return
        run = self._client.create_run(experiment, run_name=spec.slug, tags={"outland.folder": str(folder.resolve())})
        self._run = run.info.run_id
        for name, value in flatten(spec.to_json()):
            self._client.log_param(self._run, name, value)

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=epoch)

    def close(self) -> None:
        self._client.set_terminated(self._run)


class _WandB:
    """A run of the project `outland`; an interrupted one is continued. `WANDB_MODE=offline` keeps it here."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        import wandb

        self._run = wandb.init(
            project="outland",
            id=spec.slug,
            name=spec.slug,
            config=dict(flatten(spec.to_json())),
            dir=str(folder),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True),
        )

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=epoch)

    def close(self) -> None:
        self._run.finish()


TRACKERS: dict[str, tuple[str, Callable[[RunSpec, Path], Tracker]]] = {
    "tensorboard": ("tensorboard", _TensorBoard),
    "mlflow": ("mlflow", _MLflow),
    "wandb": ("wandb", _WandB),
}


def check_tracker(name: str) -> None:
    """Raise an error if there is no tracker of that name, or its package is not installed."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    if find_spec(TRACKERS[name][0]) is None:
        raise OutlandError(f"--track {name} needs the package {TRACKERS[name][0]}: pip install 'outland[{name}]'")


class TrackingCallback(CallbackWrapper):
    """Logs the run of `spec` to the tracker of that name, and passes its events on to `inner`.

    Without a spec nothing is logged: `for_run` makes the callback of each run, whose folder is in `out`.
    """

    def __init__(self, name: str, out: Path, inner: Callback | None = None, spec: RunSpec | None = None) -> None:
        super().__init__(inner)
        check_tracker(name)
        self._name, self._out, self._spec = name, out, spec
        self._tracker: Tracker | None = None

    def for_run(self, spec: RunSpec) -> Callback:
        """The callback of one run."""
        return TrackingCallback(self._name, self._out, self.inner.for_run(spec), spec)

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Open the tracker."""
        super().on_train_start(title, epochs, steps, done)
        if self._spec is not None:
            spec, make = self._spec, TRACKERS[self._name][1]
            self._tracker = self._try(lambda: make(spec, self._out / spec.slug))

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Log the epoch's scalars."""
        if (tracker := self._tracker) is not None:
            self._try(lambda: tracker.log(row["epoch"], scalars(row)))
        super().on_epoch_end(row, metric)

    def on_train_end(self) -> None:
        """Close the tracker."""
        if (tracker := self._tracker) is not None:
            self._try(tracker.close)
        self._tracker = None
        super().on_train_end()

    def _try(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as problem:
            self._tracker = None
            say(f"{self._name} failed, and the run goes on without it: {type(problem).__name__}: {problem}", "yellow")
            return None


def tracked(callback: Callback, name: str | None, out: Path) -> Callback:
    """The callback, with the tracker of that name beside it if one is named."""
    return callback if name is None else TrackingCallback(name, out, callback)


def scalars(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch by name, as `val/accuracy` or `loss/risk.risk`."""
    values = {
        f"{group}/{name}": value
        for group, named in row.items()
        if isinstance(named, Mapping)
        for name, value in named.items()
    }
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}


def flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Pairs of path and value of nested settings, as `train.epochs` and 3."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
