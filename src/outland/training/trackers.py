"""Curves of runs as they grow, in TensorBoard, MLflow or Weights & Biases. The records stay the truth.

What a tracker does wrong never stops a run: it is told once, and the run goes on untracked.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from outland.errors import OutlandError, unknown
from outland.progress import say
from outland.spec import RunSpec
from outland.training.callbacks import Callback


class Tracker(Protocol):
    """Takes the numbers of one run. Made from the run's spec and its folder when training begins or goes on."""

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """The numbers of an epoch, by name."""

    def close(self) -> None:
        """Training is over."""


class TensorBoard:
    """Event files in `tensorboard` below the run's folder: `tensorboard --logdir runs`."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(folder / "tensorboard")
        self._writer.add_text("settings", "\n".join(f"    {n}: {v}" for n, v in flat(spec.to_json())))

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        """Flush."""
        self._writer.close()


class MLflow:
    """A run of the experiment `outland` at `MLFLOW_TRACKING_URI`; an interrupted one is continued."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient()
        known = self._client.get_experiment_by_name("outland")
        place = known.experiment_id if known else self._client.create_experiment("outland")
        begun = self._client.search_runs([place], f"tags.`outland.folder` = '{folder.resolve()}'")
        if begun:
            self._run = begun[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return
        run = self._client.create_run(place, run_name=spec.slug, tags={"outland.folder": str(folder.resolve())})
        self._run = run.info.run_id
        for name, value in flat(spec.to_json()):
            self._client.log_param(self._run, name, value)

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=epoch)

    def close(self) -> None:
        """Say that the run is over."""
        self._client.set_terminated(self._run)


class WandB:
    """A run of the project `outland`; an interrupted one is continued. `WANDB_MODE=offline` keeps it here."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        import wandb

        self._run = wandb.init(
            project="outland",
            id=spec.slug,
            name=spec.slug,
            config=dict(flat(spec.to_json())),
            dir=str(folder),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True),
        )

    def log(self, epoch: int, values: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        self._run.log(dict(values), step=epoch)

    def close(self) -> None:
        """Say that the run is over."""
        self._run.finish()


TRACKERS: dict[str, tuple[str, Callable[[RunSpec, Path], Tracker]]] = {
    "tensorboard": ("tensorboard", TensorBoard),
    "mlflow": ("mlflow", MLflow),
    "wandb": ("wandb", WandB),
}


def check_tracker(name: str) -> None:
    """Say what is wrong with a tracker's name, or what must be installed for it."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS)
    if find_spec(TRACKERS[name][0]) is None:
        raise OutlandError(f"--track {name} needs the package {TRACKERS[name][0]}: pip install 'outland[{name}]'")


class TrackingWatcher(Callback):
    """Tracks runs, and lets another callback see them too.

    Args:
        name: of the tracker.
        out: folder of runs.
        inner: the other callback.
        spec: of the run it watches; without one, it makes a callback for each run.
    """

    def __init__(self, name: str, out: Path, inner: Callback | None = None, spec: RunSpec | None = None) -> None:
        check_tracker(name)
        self._name, self._out, self._inner, self._spec = name, out, inner or Callback(), spec
        self._tracker: Tracker | None = None

    def of(self, spec: RunSpec) -> Callback:
        """The callback of one run."""
        return TrackingWatcher(self._name, self._out, self._inner.of(spec), spec)

    def start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Open the tracker."""
        self._inner.start(title, epochs, steps, done)
        if self._spec is not None:
            spec, make = self._spec, TRACKERS[self._name][1]
            self._tracker = self._try(lambda: make(spec, self._out / spec.slug))

    def step(self) -> None:
        """Nothing to track yet."""
        self._inner.step()

    def epoch(self, row: dict[str, Any], metric: str) -> None:
        """Track the epoch's numbers."""
        if (tracker := self._tracker) is not None:
            self._try(lambda: tracker.log(row["epoch"], numbers(row)))
        self._inner.epoch(row, metric)

    def stop(self) -> None:
        """Close the tracker."""
        if (tracker := self._tracker) is not None:
            self._try(tracker.close)
        self._tracker = None
        self._inner.stop()

    def _try(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as problem:
            self._tracker = None
            words = f"{self._name} failed, and the run goes on without it: {type(problem).__name__}: {problem}"
            say(words, "yellow")
            return None


def tracked(callback: Callback, name: str | None, out: Path) -> Callback:
    """The callback, and a tracker beside it if one is named."""
    return callback if name is None else TrackingWatcher(name, out, callback)


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an epoch by name, as `val/accuracy` or `loss/risk.risk`."""
    found = {
        f"{group}/{name}": value
        for group, values in row.items()
        if isinstance(values, Mapping)
        for name, value in values.items()
    }
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def flat(plain: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as `train.epochs` and the like."""
    for name, value in plain.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
