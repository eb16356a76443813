"""Predictions of a model on the parts of the data, and their scores."""

import torch
from torch import Tensor

from outland.graphs import Batches, PackedGraphs, Splits
from outland.methods import Method
from outland.spec import Precision
from outland.training.capture import GraphCapture, Program
from outland.training.metrics import Scores, score
from outland.training.precision import autocast


@torch.inference_mode()
def predict(method: Method, graphs: PackedGraphs, index: Tensor, batch_size: int) -> Tensor:
    """Logits of the graphs at `index`, in its order, `[len(index), outputs]`."""
    method.eval()
    return torch.cat([method(batch) for batch in Batches(graphs, index, batch_size)])


def evaluate(method: Method, splits: Splits, batch_size: int) -> dict[str, Scores]:
    """Scores by part, for every part but the training one."""
    evaluation = Evaluation(method, splits, batch_size)
    evaluation.run()
    return evaluation.scores()


class Evaluation:
    """Scores a model on every part but the training one, again and again: the batches are always the same.

    All parts are predicted by one program, and their logits are read at once. With the `capture` of a run the program
    is replayed; without, it is called anew each time.
    """

    def __init__(
        self,
        method: Method,
        splits: Splits,
        batch_size: int,
        capture: GraphCapture | None = None,
        precision: Precision = "tf32",
    ) -> None:
        self.method, self.splits, self.capture, self.precision = method, splits, capture, precision
        self.parts = {part: index for part, index in splits.parts.items() if part != "train" and len(index)}
        index = torch.cat([*self.parts.values(), torch.zeros(0, dtype=torch.long)])
        self._batches = Batches(splits.graphs, index, batch_size)
        plan = self._batches.plan(0)
        self._sizes = list(zip(plan.index.to(splits.graphs.device), plan.graphs, plan.nodes, plan.edges, strict=True))
        labels = splits.graphs.y[index.to(splits.graphs.device)].cpu()
        self.labels = labels.split([len(part) for part in self.parts.values()])
        self.logits = torch.zeros(len(index), splits.schema.task.outputs, device=splits.graphs.device)
        self._program: Program | None = None

    @torch.no_grad()
    def _predict(self) -> None:
        done = 0
        for index, graphs, nodes, edges in self._sizes:
            batch = self._batches.gatherer.exact(index[:graphs], nodes, edges)
            with autocast(self.precision, self.logits.device):
                self.logits[done : done + graphs].copy_(self.method(batch))
            done += graphs

    def run(self) -> None:
        """Predict all parts, without waiting for the device."""
        self.method.eval()
        if self._program is None:
            self._predict()
            self._program = self._predict if self.capture is None else self.capture.capture(self._predict)
        else:
            self._program()

    def scores(self, logits: Tensor | None = None) -> dict[str, Scores]:
        """Scores by part of `logits`, by default those of the last `run`."""
        logits = self.logits if logits is None else logits
        parts = logits.cpu().split([len(labels) for labels in self.labels])
        task = self.splits.schema.task
        return {
            part: score(predicted, labels, task)
            for part, predicted, labels in zip(self.parts, parts, self.labels, strict=True)
        }
