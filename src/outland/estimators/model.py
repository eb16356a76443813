"""A trained model that is ready for new graphs: predictions, probabilities, distances."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.devices import one_thread
from outland.estimators.calibration import Calibration
from outland.estimators.distance import Familiar
from outland.estimators.inputs import Kind
from outland.graphs import Batches, PackedGraphs, Schema, Task
from outland.methods import Method

BATCH = 256  # graphs a batch; one size everywhere, so that the last bit of a number never depends on who asks


@dataclass(frozen=True)
class Answers:
    """What a model says of graphs: raw outputs `[G, outputs]`, embeddings `[G, d]` and distances `[G]`."""

    outputs: Tensor
    embeddings: Tensor
    distances: Tensor


@dataclass(frozen=True)
class FittedModel:
    """A method with its weights, and what else is needed to use it.

    Args:
        method: the network, in evaluation mode.
        kind: what it reads.
        classes: names of the classes, in order; empty where numbers are predicted.
        calibration: of its probabilities.
        familiar: of its distances.
        scale: mean and spread of the training labels, where numbers are predicted.
        sample: some training graphs, to measure shifts against.
        about: the story of its training, as plain values.
        seen: hashes of the texts of training and validation rows, where these were texts (see `seen`).
    """

    method: Method
    kind: Kind
    classes: tuple[Any, ...]
    calibration: Calibration
    familiar: Familiar
    scale: tuple[float, float]
    sample: PackedGraphs
    about: dict[str, Any]
    seen: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))

    @property
    def schema(self) -> Schema:
        """What its numbers mean."""
        return self.method.schema

    @property
    def task(self) -> Task:
        """What it predicts."""
        return self.method.schema.task

    @property
    def device(self) -> torch.device:
        """Where it works."""
        return next(self.method.parameters()).device

    def answer(self, graphs: PackedGraphs) -> Answers:
        """Raw outputs, embeddings and distances of graphs, in order."""
        outputs, embeddings = run_batches(self.method, graphs)
        return Answers(outputs, embeddings, self.distances(embeddings))

    def distances(self, embeddings: Tensor) -> Tensor:
        """How unusual embeddings are, block by block."""
        with one_thread():
            found = [self.familiar.distances(block) for block in embeddings.split(BATCH)]
        return torch.cat(found) if found else embeddings.new_zeros(0)

    def probabilities(self, answers: Answers) -> npt.NDArray[np.float64]:
        """Of every class `[G, classes]`, scaled on validation rows."""
        found: npt.NDArray[np.float64] = self.calibration.probabilities(answers.outputs.double(), self.task).numpy()
        return found

    def decisions(self, answers: Answers) -> npt.NDArray[np.int64]:
        """The class that is likelier than its share in training, by its place `[G]`.

        Where classes were not balanced in training that is the most probable one.
        """
        if self.task.kind == "binary":
            return (answers.outputs[:, 0] > 0).long().numpy()
        return answers.outputs.argmax(1).numpy()

    def numbers(self, answers: Answers) -> npt.NDArray[np.float64]:
        """Predicted numbers `[G]`."""
        mean, spread = self.scale
        found: npt.NDArray[np.float64] = (answers.outputs[:, 0].double() * spread + mean).numpy()
        return found

    @property
    def threshold(self) -> float:
        """The probability of yes from which on a row is called so."""
        return float(torch.tensor(self.calibration.offset[0], dtype=torch.double).sigmoid())


@torch.inference_mode()
def run_batches(method: Method, graphs: PackedGraphs) -> tuple[Tensor, Tensor]:
    """Raw outputs and embeddings of graphs, on the host. An embedding is what the method's last layer reads."""
    method.eval()
    outputs, embeddings = [], []
    with one_thread():
        for batch in Batches(graphs.to(next(method.parameters()).device), torch.arange(len(graphs)), BATCH):
            embedding = method.embed(batch)
            outputs.append(method.to_logits(embedding).cpu())
            embeddings.append(embedding.cpu())
    return torch.cat(outputs).clone(), torch.cat(embeddings).clone()
