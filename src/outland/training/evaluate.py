"""Predictions of a model on the parts of the data, and their scores."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from outland.graphs import Batches, GraphBatch, PackedGraphs, Splits
from outland.methods import Method
from outland.spec import Precision
from outland.training.capture import CapturedProgram, GraphCapture
from outland.training.metrics import Scorer, Scores, named
from outland.training.precision import autocast

_MOST_KEPT, _SHARE_KEPT = 4e8, 0.03  # bytes of all batches that are kept, about; or that share of a GPU's memory
_NODE_BYTES, _EDGE_BYTES = 32, 64  # of a batch, besides features
_MOST_ROWS = 1_000_000  # nodes and edges of a batch, about: some methods make a thousand numbers for each


@torch.inference_mode()
def predict(method: Method, graphs: PackedGraphs, index: Tensor, batch_size: int) -> Tensor:
    """Logits of the graphs at `index`, in its order, `[len(index), outputs]`."""
    method.eval()
    size = fitting_size(graphs, [index], batch_size)
    return torch.cat([method(batch) for batch in Batches(graphs, index, size)])


def evaluate(method: Method, splits: Splits, batch_size: int) -> dict[str, Scores]:
    """Scores by part, for every part but the training one."""
    evaluation = Evaluation(method, splits, batch_size)
    evaluation.run()
    return evaluation.by_part(evaluation.scores)


def fitting_size(graphs: PackedGraphs, parts: Iterable[Tensor], batch_size: int) -> int:
    """Graphs a batch: `batch_size`, or fewer if the graphs of a part, each the index of some, are large on average."""
    rows = graphs.node_counts + graphs.edge_counts
    largest = max((float(rows[index].double().mean()) for index in parts if len(index)), default=0.0)
    return max(1, min(batch_size, int(_MOST_ROWS / max(largest, 1.0))))


def _batch_bytes(graphs: PackedGraphs, nodes: int, edges: int) -> int:
    """Bytes of batches with so many nodes and edges in all, about."""
    of_edge = 0 if graphs.edge_attr is None else graphs.edge_attr[:1].nbytes
    return nodes * (graphs.x[:1].nbytes + _NODE_BYTES) + edges * (of_edge + _EDGE_BYTES)


def _most_kept(device: torch.device) -> float:
    """Bytes of batches that a run may keep."""
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    return max(_MOST_KEPT, _SHARE_KEPT * memory)


class Evaluation:
    """Scores a model on every part but the training one, again and again: the batches are always the same.

    One program predicts and scores all parts, and leaves one number a part on the device; it also looks whether the
    parameters are finite. With the `capture` of a run it is replayed, and reads batches that were collated once unless
    they are large; without, it is called anew each time.
    """

    def __init__(
        self,
        method: Method,
        splits: Splits,
        batch_size: int,
        capture: GraphCapture | None = None,
        precision: Precision = "tf32",
    ) -> None:
        self.method, self.splits, self.precision = method, splits, precision
        device, task = splits.graphs.device, splits.schema.task
        self.parts = {part: index for part, index in splits.parts.items() if part != "train" and len(index)}
        index = torch.cat([*self.parts.values(), torch.zeros(0, dtype=torch.long)])
        self._batches = Batches(splits.graphs, index, fitting_size(splits.graphs, self.parts.values(), batch_size))
        plan = self._batches.plan(0)
        self._sizes = list(zip(plan.index.to(device), plan.graphs, plan.nodes, plan.edges, strict=True))
        self._scorers = [Scorer(splits.graphs.y[part.to(device)], task) for part in self.parts.values()]
        self.logits = torch.zeros(len(index), task.outputs, device=device)
        self.scores = torch.zeros(len(self.parts), dtype=torch.double, device=device)  # NaN where undefined
        self._parameters = [parameter.detach() for parameter in method.parameters()]
        self.finite = torch.ones(len(self._parameters), dtype=torch.bool, device=device)  # whether each parameter is
        bytes_kept = _batch_bytes(splits.graphs, sum(plan.nodes), sum(plan.edges))
        is_kept = capture is not None and bytes_kept <= _most_kept(device)
        self._kept = list(self._collate()) if is_kept else None
        self._program = CapturedProgram(self._predict_and_score, capture)

    def _collate(self) -> Iterator[GraphBatch]:
        for index, graphs, nodes, edges in self._sizes:
            yield self._batches.gatherer.exact(index[:graphs], nodes, edges)

    @torch.no_grad()
    def _predict_and_score(self) -> None:
        done = 0
        for batch in self._kept or self._collate():
            with autocast(self.precision, self.logits.device):
                self.logits[done : done + batch.num_graphs].copy_(self.method(batch))
            done += batch.num_graphs
        if self.parts:
            parts = self.logits.split([len(index) for index in self.parts.values()])
            pairs = zip(self._scorers, parts, strict=True)
            self.scores.copy_(torch.stack([scorer(logits) for scorer, logits in pairs]))
        self.finite.copy_(torch.stack(torch._foreach_norm(self._parameters)).isfinite())

    def run(self) -> None:
        """Predict and score all parts, without waiting for the device."""
        self.method.eval()
        self._program()

    def by_part(self, scores: Tensor) -> dict[str, Scores]:
        """Values of `scores`, those of some `run`, by part and metric."""
        return {
            part: named(self.splits.schema.task, value) for part, value in zip(self.parts, scores.tolist(), strict=True)
        }
