"""Contenders of a fit, trained on some rows and asked about others: networks, and models of molecules' vectors."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from outland.estimators.stacking import combine, mean_loss
from outland.graphs import PackedGraphs, Splits, Task
from outland.methods import rebuild_method
from outland.models.calibration import prior_offset
from outland.models.gaussian_process import GaussianProcess, fit_gp
from outland.models.knn import REFERENCES, KNNDistance
from outland.models.members import Member, Network
from outland.models.tree_tensors import TreeTensors
from outland.models.trees import Trees, fit_boosting, fit_forest
from outland.spec import RunSpec
from outland.storage.snapshots import Snapshot
from outland.tables.splitting import assign_environments
from outland.training.callbacks import Callback
from outland.training.runs import Training
from outland.training.targets import standardize

VECTOR_MODELS: dict[str, Callable[[PackedGraphs, Task, int], Trees | GaussianProcess]] = {
    "forest": fit_forest,
    "boosting": fit_boosting,
    "gp": fit_gp,
}
NETWORKS = ("erm", "aia")
CONTENDERS = (*VECTOR_MODELS, *NETWORKS)
PATIENCE = 10  # epochs without a better loss on held-out rows, after which the training of a fold ends


def train_vector_model(name: str, splits: Splits, seed: int) -> Snapshot:
    """A model of vectors trained on `train`: its outputs on `val`, where it is there, as of one epoch; else itself."""
    standardized = standardize(splits)
    task, graphs = standardized.schema.task, standardized.graphs
    model = VECTOR_MODELS[name](graphs.select(splits["train"]), task, seed)
    if "val" not in splits:
        return Snapshot({f"model.{part}": tensor for part, tensor in model.tensors().items()}, {})
    return Snapshot({"outputs": task.in_label_units(model.outputs(splits.part("val")))[None]}, {"epochs": 1})


def train_network(splits: Splits, spec: RunSpec, device: torch.device, until: int | None = None) -> Snapshot:
    """A network trained on `train`: its outputs on `val` after each epoch and distances, or its weights.

    Where `val` is there training ends when patience does; `until` ends it after so many epochs of the schedule.
    """
    splits = _with_environments(splits, spec.domain)
    recorder = OutputRecorder(computing_clock(device))
    training = Training(spec, splits.to(device), device, callback=recorder, epochs=until)
    data, method = training.data, training.trainer.method
    task, offset = data.splits.schema.task, prior_offset(data.class_counts, data.class_draws, data.splits.schema.task)
    if "val" in splits:
        recorder.judge_by(data.splits.graphs.y[splits["val"].to(device)].cpu(), offset, task)
    steps = training.steps()
    for event in steps:
        if event is not None:
            event.synchronize()
        if recorder.is_over:
            steps.close()
            break
    method.eval()
    values = {"epochs": len(training.trainer.curves), "epoch_seconds": recorder.seconds(), "offset": list(offset)}
    if "val" not in splits:
        return Snapshot({f"weights.{name}": tensor.cpu() for name, tensor in method.state_dict().items()}, values)
    outputs = task.in_label_units(recorder.outputs())
    return Snapshot({"outputs": outputs, **_distances(Network(method, spec), splits, spec.seed)}, values)


class OutputRecorder(Callback):
    """Keeps the outputs on the `val` part after each epoch; on a CPU also says when they get no better."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.is_over = False
        self._clock, self._times = clock, [clock()]
        self._logits: list[Tensor] = []
        self._losses: list[float] = []
        self._labels: Tensor | None = None

    def judge_by(self, y: Tensor, offset: tuple[float, ...], task: Task) -> None:
        """Record, and measure the loss against labels `y`."""
        self._labels, self._task, self._offset = y, task, torch.tensor(offset)

    def on_evaluation_end(self, epoch: int, logits: Tensor) -> None:
        """Keep a copy, on the device."""
        if self._labels is not None:
            self._logits.append(logits.detach().clone())

    def on_epoch_end(self, row: dict[str, object], metric: str) -> None:
        """See whether the last `PATIENCE` epochs were of no use."""
        self._times.append(self._clock())
        if self._labels is None or self._logits[-1].is_cuda:
            return
        self._losses.append(calibrated_loss(self._shared_units(self._logits[-1]), self._labels, self._task))
        best = min(range(len(self._losses)), key=self._losses.__getitem__)
        self.is_over = len(self._losses) - 1 - best >= PATIENCE

    def seconds(self) -> list[float]:
        """Seconds of each epoch, the first with what comes before it."""
        return [end - start for start, end in zip(self._times, self._times[1:], strict=False)]

    def _shared_units(self, logits: Tensor) -> Tensor:
        logits = logits.float().cpu()
        if self._task.kind == "regression":
            return logits
        logits = logits + self._offset
        return logits.log_softmax(-1) if self._task.kind == "multiclass" else logits

    def outputs(self) -> Tensor:
        """Outputs by epoch `[epochs, n, outputs]`, in the units that members share."""
        return torch.stack([self._shared_units(logits) for logits in self._logits])


def computing_clock(device: torch.device) -> Callable[[], float]:
    """The process's own time on a CPU, so that other work on the machine changes no plan; else the wall's."""
    return time.process_time if device.type == "cpu" else time.perf_counter


def calibrated_loss(outputs: Tensor, y: Tensor, task: Task) -> float:
    """The least mean loss of outputs `[n, outputs]` over temperatures and biases."""
    stacked = outputs[None].double()
    return mean_loss(combine(stacked, y, task).outputs(stacked), y, task)


def _with_environments(splits: Splits, domain: str) -> Splits:
    """The splits with environments of their training rows."""
    columns = {**splits.graphs.extra, "size": splits.graphs.node_counts}
    environment, count = assign_environments(domain, columns, splits["train"], splits.graphs.environment)
    graphs = replace(splits.graphs, environment=environment)
    return replace(splits, graphs=graphs, schema=replace(splits.schema, environments=count))


def _distances(network: Network, splits: Splits, seed: int) -> dict[str, Tensor]:
    """Distances of `val` to training embeddings, where the method has embeddings."""
    order = torch.randperm(len(splits["train"]), generator=torch.Generator().manual_seed(seed))
    drawn = splits.graphs.select(splits["train"][order[: 2 * REFERENCES]])
    (_, embeddings), (_, held_out) = (network.outputs_and_embeddings(part) for part in (drawn, splits.part("val")))
    if embeddings is None or held_out is None:
        return {}
    return {"distances": KNNDistance.fit(embeddings, seed).distances(held_out)}


def build_member(name: str, result: Snapshot, splits: Splits, spec: RunSpec) -> Member:
    """The member that was trained on all rows of `splits`, from its snapshot."""
    schema = standardize(splits).schema
    if name in VECTOR_MODELS:
        parts = result.group("model")
        if name == "gp":
            return GaussianProcess(schema.task, **parts)
        column, base = parts.pop("column"), parts.pop("base")
        kind: Literal["forest", "boosting"] = "forest" if name == "forest" else "boosting"
        numbers = sum(splits.graphs.extra[vector].shape[1] for vector in ("descriptors", "counts"))
        return Trees(kind, schema.task, TreeTensors(**parts), column, base, numbers)
    count = _with_environments(splits, spec.domain).schema.environments
    schema = replace(schema, environments=count, descriptors=splits.graphs.extra["descriptors"].shape[1])
    method = rebuild_method(spec.method, schema, spec.backbone, spec.method_params, result.group("weights"))
    return Network(method.eval(), spec, tuple(result.values["offset"]))
