"""The masks that an augmentation lays on a few fixed graphs at successive moments of training, and their diversity."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, pstdev
from typing import Any, Literal

import torch
from torch import Tensor

from outland.datasets import DataFolder
from outland.errors import OutlandError
from outland.graphs import Batches, Cache, PackedGraphs, Splits
from outland.methods import Method
from outland.shift.augmented import asked, training_mask
from outland.shift.diversity import bernoulli_entropies, factorised_entropies, joint_entropy
from outland.training import RunSpec, Trainer, prepare
from outland.training.callbacks import Callback

Over = Literal["edge", "node"]
_BATCH = 128
_SOFT = 10  # bins of masks that are not all zeros and ones


@dataclass(frozen=True)
class Diversity:
    """Conditional entropy of a method's augmentations, mean and standard deviation over graphs, all from 0 to 1.

    Args:
        method: whose augmentations.
        over: entries of `edge` or of `node` masks.
        moments: T, how many versions of each graph.
        graphs: how many graphs.
        bins: into which mask values were cut.
        parts: for `full` graph, and where the truth is known `environment` and `stable` part: the entropy by estimator
            (`factorised`, `corrected`, `bernoulli`, `joint`), as mean and spread.
    """

    method: str
    over: Over
    moments: int
    graphs: int
    bins: int
    parts: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return asdict(self)


class Moments(Callback):
    """Watches a run and writes down masks: give it to the `Trainer` as its callback.

    Networks are in evaluation mode when they are asked. So AIA's masks follow from its weights alone, and their
    diversity is variation over training time; DropEdge draws afresh at every moment. The run itself is not disturbed:
    its random numbers are its own.

    Args:
        method: the model that is being trained.
        splits: its data.
        most: the first so many of the training graphs, in an order drawn by `seed`.
        every: steps between two moments; None is the end of each epoch.
        skip: moments at the start that are left out: warm-up.
        seed: of the choice of graphs, and of draws.
        callback: what a person sees of the run.
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
        train = splits["train"].cpu()
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        self.method, self.graphs = method, splits.graphs.select(train[order[:most]])
        self.every, self.skip, self.seed, self.inner = every, skip, seed, callback or Callback()
        self.steps = self.seen = 0
        self.masks: dict[Over, list[Tensor]] = {"edge": [], "node": []}

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Training begins."""
        self.inner.on_train_start(title, epochs, steps, done)

    def on_step_end(self) -> None:
        """One step was taken."""
        self.inner.on_step_end()
        self.steps += 1
        if self.every is not None and self.steps % self.every == 0:
            self.take()

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """An epoch is over."""
        self.inner.on_epoch_end(row, metric)
        if self.every is None:
            self.take()

    def on_train_end(self) -> None:
        """Training is over."""
        self.inner.on_train_end()

    def take(self) -> None:
        """Write down the masks of this moment."""
        self.seen += 1
        if self.seen <= self.skip:
            return
        found: dict[Over, list[Tensor]] = {"edge": [], "node": []}
        with asked(self.method, self.seed + self.seen), torch.no_grad():
            for batch in Batches(self.graphs, torch.arange(len(self.graphs)), _BATCH):
                mask = training_mask(self.method, batch).symmetric(batch)
                found["edge"].append(mask.edge)
                found["node"].append(mask.node)
        for over, rows in found.items():
            self.masks[over].append(torch.cat(rows).float().cpu())

    def diversity(self, over: Over = "edge", bins: int | None = None) -> Diversity:
        """The entropy of what was written down."""
        if len(self.masks[over]) < 2:
            raise OutlandError(
                f"diversity needs at least two moments, and there are {len(self.masks[over])}: "
                "train for more epochs, or take moments every few steps"
            )
        masks = torch.stack(self.masks[over])
        binary = bool(((masks == 0) | (masks == 1)).all())
        chosen = bins or (2 if binary else _SOFT)
        found = Diversity(self.method.name, over, len(masks), len(self.graphs), chosen)
        return replace(found, parts=_parts(masks, self.graphs, over, chosen))


def fresh_draws(method: Method, splits: Splits, moments: int, most: int = 1000, seed: int = 0) -> Moments:
    """Moments of a model that stands still: for augmentations that are drawn and not learned."""
    watched = Moments(method, splits, most, seed=seed)
    for _ in range(moments):
        watched.take()
    return watched


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
    watched = Moments(method, splits, most, every, skip, spec.seed, callback)
    Trainer(method, splits, spec.train, spec.seed, callback=watched).fit()
    return watched


def _parts(masks: Tensor, graphs: PackedGraphs, over: Over, bins: int) -> dict[str, dict[str, tuple[float, float]]]:
    counts = graphs.edge_counts if over == "edge" else graphs.node_counts
    truth = graphs.edge_truth if over == "edge" else graphs.node_truth
    owner = torch.arange(len(graphs)).repeat_interleave(counts)
    inside = {"full": torch.ones(len(owner), dtype=torch.bool)}
    if truth is not None:
        inside |= {"environment": ~truth.cpu(), "stable": truth.cpu()}
    entries = {
        "factorised": factorised_entropies(masks, bins),
        "corrected": factorised_entropies(masks, bins, corrected=True),
        "bernoulli": bernoulli_entropies(masks),
    }
    found = {}
    for name, part in inside.items():
        number = torch.bincount(owner[part], minlength=len(graphs))
        named = {}
        for estimator, values in entries.items():
            total = torch.zeros(len(graphs), dtype=torch.double).index_add_(0, owner[part], values[part])
            named[estimator] = _summed(total[number > 0] / number[number > 0])
        named["joint"] = _summed(_joint(masks, owner, part, lambda rows: joint_entropy(rows, bins)))
        found[name] = named
    return found


def _joint(masks: Tensor, owner: Tensor, part: Tensor, entropy: Callable[[Tensor], Tensor]) -> Tensor:
    sizes = torch.bincount(owner[part])
    pieces = masks[:, part].split(sizes.tolist(), dim=1)
    return torch.stack([entropy(piece) for piece in pieces if piece.shape[1]])


def _summed(values: Tensor) -> tuple[float, float]:
    plain = values.tolist()
    return fmean(plain), pstdev(plain)
