"""The masks of an augmentation on a few fixed graphs at successive moments of training, and their diversity."""

from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any, Literal

import torch
from torch import Tensor

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.graphs import Batches, Cache, PackedGraphs, Splits
from outland.methods import Method
from outland.shift.augmented import evaluating, training_mask
from outland.shift.diversity import bernoulli_entropy, factorised_entropy, joint_entropy
from outland.training import RunSpec, Trainer, prepare
from outland.training.callbacks import Callback, CallbackWrapper

Over = Literal["edge", "node"]
_BATCH = 128
_SOFT_BINS = 10  # of masks that are not all zeros and ones


@dataclass(frozen=True)
class Diversity:
    """Conditional entropy of a method's augmentations, mean and standard deviation over graphs, all from 0 to 1.

    `parts` has, for the `full` graph and where the truth is known for its `environment` and `stable` part, the entropy
    by estimator (`factorised`, `corrected`, `bernoulli`, `joint`), as mean and standard deviation. `moments` is T.
    """

    method: str
    over: Over
    moments: int
    graphs: int
    bins: int
    parts: dict[str, dict[str, tuple[float, float]]]

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


class Moments(CallbackWrapper):
    """Records the masks of a run: give it to the `Trainer` as its callback.

    Networks are in evaluation mode when masks are computed. So AIA's masks follow from its weights alone, and their
    diversity is variation over training time; DropEdge draws anew at every moment. The run's own random numbers are not
    used.

    Args:
        method: the model that is being trained.
        splits: its data.
        most: number of training graphs, drawn by `seed`.
        every: steps between two moments; None is the end of each epoch.
        skip: moments at the start that are left out: warm-up.
        seed: of the choice of graphs, and of random masks.
        callback: another callback, which is called first.
    """

    def __init__(
        self,
        method: Method,
        splits: Splits,
        most: int = 1000,
        every: int | None = None,
        skip: int = 0,
        seed: int = 0,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(callback)
        train = splits["train"].cpu()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        self.method, self.graphs = method, splits.graphs.select(train[order[:most]])
        self.every, self.skip, self.seed = every, skip, seed
        self.steps = self.moments = 0
        self.masks: dict[Over, list[Tensor]] = {"edge": [], "node": []}

    def on_step_end(self) -> None:
        """Record masks every few steps."""
        super().on_step_end()
        self.steps += 1
        if self.every is not None and self.steps % self.every == 0:
            self.take()

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Record masks at the end of an epoch."""
        super().on_epoch_end(row, metric)
        if self.every is None:
            self.take()

    def take(self) -> None:
        """Record the masks of this moment."""
        self.moments += 1
        if self.moments <= self.skip:
            return
        batches = Batches(self.graphs, torch.arange(len(self.graphs)), _BATCH)
        with evaluating(self.method, self.seed + self.moments), torch.no_grad():
            masks = [training_mask(self.method, batch).symmetric(batch) for batch in batches]
        self.masks["edge"].append(torch.cat([mask.edge for mask in masks]).float().cpu())
        self.masks["node"].append(torch.cat([mask.node for mask in masks]).float().cpu())

    def diversity(self, over: Over = "edge", bins: int | None = None) -> Diversity:
        """The entropy of the recorded masks."""
        if len(self.masks[over]) < 2:
            raise OutlandError(
                f"diversity needs at least two moments, and there are {len(self.masks[over])}: "
                "train for more epochs, or take moments every few steps"
            )
        masks = torch.stack(self.masks[over])
        bins = bins or (2 if ((masks == 0) | (masks == 1)).all() else _SOFT_BINS)
        parts = _parts(masks, self.graphs, over, bins)
        return Diversity(self.method.name, over, len(masks), len(self.graphs), bins, parts)


def fresh_draws(method: Method, splits: Splits, moments: int, most: int = 1000, seed: int = 0) -> Moments:
    """Moments of a model that is not trained: for augmentations that are random and not learned."""
    recorder = Moments(method, splits, most, seed=seed)
    for _ in range(moments):
        recorder.take()
    return recorder


def train_moments(
    spec: RunSpec,
    *,
    device: str = "cpu",
    most: int = 1000,
    every: int | None = None,
    skip: int = 0,
    cache: Cache | None = None,
    data: DataFolder | None = None,
    callback: Callback | None = None,
) -> Moments:
    """Train a run from its spec, without record or checkpoints, and return the moments of its masks."""
    method, splits = prepare(spec, torch.device(device), cache, data)
    recorder = Moments(method, splits, most, every, skip, spec.seed, callback)
    Trainer(method, splits, spec.train, spec.seed, callback=recorder).fit()
    return recorder


def _parts(masks: Tensor, graphs: PackedGraphs, over: Over, bins: int) -> dict[str, dict[str, tuple[float, float]]]:
    counts = graphs.edge_counts if over == "edge" else graphs.node_counts
    truth = graphs.edge_truth if over == "edge" else graphs.node_truth
    graph = torch.arange(len(graphs)).repeat_interleave(counts)
    parts = {"full": torch.ones(len(graph), dtype=torch.bool)}
    if truth is not None:
        parts |= {"environment": ~truth.cpu(), "stable": truth.cpu()}
    entries = {
        "factorised": factorised_entropy(masks, bins),
        "corrected": factorised_entropy(masks, bins, corrected=True),
        "bernoulli": bernoulli_entropy(masks),
    }
    entropies: dict[str, dict[str, tuple[float, float]]] = {}
    for name, part in parts.items():
        number = torch.bincount(graph[part], minlength=len(graphs))
        entropies[name] = {}
        for estimator, values in entries.items():
            total = torch.zeros(len(graphs), dtype=torch.double).index_add_(0, graph[part], values[part])
            entropies[name][estimator] = _mean_and_std(total[number > 0] / number[number > 0])
        pieces = masks[:, part].split(torch.bincount(graph[part]).tolist(), dim=1)
        joint = [joint_entropy(piece, bins) for piece in pieces if piece.shape[1]]
        entropies[name]["joint"] = _mean_and_std(torch.stack(joint))
    return entropies


def _mean_and_std(values: Tensor) -> tuple[float, float]:
    return fmean(values.tolist()), pstdev(values.tolist())
