"""A trained model, ready for new graphs: predictions, probabilities, distances."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.chem.featurizer import ATOMS, BONDS
from outland.devices import one_thread
from outland.errors import OutlandError
from outland.graphs import Batches, PackedGraphs, Schema, Task
from outland.methods import Method
from outland.models.calibration import Calibration
from outland.models.knn import KNNDistance
from outland.models.summary import Assessment, TrainingSummary
from outland.spec import RunSpec

BATCH_SIZE = 256  # the same everywhere, so that the last bit of a number never depends on who asks
Kind = Literal["molecules", "graphs"]


@dataclass(frozen=True)
class Predictions:
    """Raw outputs `[G, outputs]`, embeddings `[G, d]` and distances `[G]`; the last two where the model has them."""

    outputs: Tensor
    embeddings: Tensor | None
    distances: Tensor | None


@dataclass(frozen=True)
class TrainedModel:
    """A method with its weights, and what else is needed to use it.

    Args:
        method: the network, in evaluation mode.
        spec: the run that trained it.
        classes: names of the classes of a target, in order; empty where numbers are predicted.
        calibration: of its probabilities.
        training: how it was trained.
        distance: of embeddings to training embeddings; None where the method has no embeddings.
        assessment: scores on held-out rows, where they were taken.
        reference: training graphs to measure shifts against, where they cannot be loaded from a dataset.
        training_hashes: of the SMILES of training and validation rows (see `duplicates`).
        source: of the method's file, where it is in a file of its own.
    """

    method: Method
    spec: RunSpec
    classes: tuple[Any, ...]
    calibration: Calibration
    training: TrainingSummary
    distance: KNNDistance | None = None
    assessment: Assessment | None = None
    reference: PackedGraphs | None = None
    training_hashes: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    source: str = ""

    @property
    def schema(self) -> Schema:
        """What the numbers of its graphs mean."""
        return self.method.schema

    @property
    def task(self) -> Task:
        """What it predicts."""
        return self.method.schema.task

    @property
    def kind(self) -> Kind:
        """What it reads."""
        return "molecules" if (self.schema.node, self.schema.edge) == (ATOMS, BONDS) else "graphs"

    @property
    def targets(self) -> list[str]:
        """Names of what it predicts: the table's columns, or one name for a benchmark's label."""
        if self.spec.table is not None:
            return self.spec.table.targets
        outputs = 1 if self.task.kind == "multiclass" else self.task.outputs
        return ["label"] if outputs == 1 else [f"label{number}" for number in range(outputs)]

    def target_index(self, name: str | None) -> int:
        """Index of a target by its name; 0 where it is none of the model's."""
        return self.targets.index(name) if name in self.targets else 0

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.method.parameters()).device

    def predict(self, graphs: PackedGraphs) -> Predictions:
        """Raw outputs, embeddings and distances of graphs, in order."""
        outputs, embeddings = run_batches(self.method, graphs)
        distances = None if embeddings is None else self.distances(embeddings)
        return Predictions(outputs, embeddings, distances)

    def distances(self, embeddings: Tensor) -> Tensor | None:
        """k-nearest-neighbour distances of embeddings `[G]`."""
        if self.distance is None:
            return None
        with one_thread():
            blocks = [self.distance.distances(block) for block in embeddings.split(BATCH_SIZE)]
        return torch.cat(blocks) if blocks else embeddings.new_zeros(0)

    def probabilities(self, predictions: Predictions) -> npt.NDArray[np.float64]:
        """Calibrated, `[G, classes]`; for several binary targets, of the second class of each, `[G, targets]`."""
        probabilities = self.calibration.probabilities(predictions.outputs.double(), self.task)
        if self.task.kind == "binary" and self.task.outputs == 1:
            probabilities = torch.cat([1 - probabilities, probabilities], 1)
        array: npt.NDArray[np.float64] = probabilities.numpy()
        return array

    def decisions(self, predictions: Predictions) -> npt.NDArray[np.int64]:
        """Index of the class that is likelier than its share in training `[G]`, or `[G, targets]` for several.

        Where classes were not balanced in training that is the most probable one.
        """
        if self.task.kind == "binary":
            return (predictions.outputs > 0).long().squeeze(1).numpy()
        return predictions.outputs.argmax(1).numpy()

    def numbers(self, predictions: Predictions) -> npt.NDArray[np.float64]:
        """Predicted numbers in the labels' own units `[G]`, or `[G, targets]` for several."""
        array: npt.NDArray[np.float64] = self.task.in_label_units(predictions.outputs.double()).squeeze(1).numpy()
        return array

    def threshold(self, target: int = 0) -> float:
        """The probability from which on a row is called the second class."""
        return float(torch.tensor(self.calibration.offset[target], dtype=torch.double).sigmoid())


@torch.inference_mode()
def run_batches(method: Method, graphs: PackedGraphs) -> tuple[Tensor, Tensor | None]:
    """Raw outputs of graphs, and the embeddings that the method's last layer reads if it has any, on the host."""
    method.eval()
    device = next(method.parameters()).device
    outputs, embeddings = [], []
    has_embeddings = True
    with one_thread():
        for batch in Batches(graphs.to(device), torch.arange(len(graphs)), BATCH_SIZE):
            try:
                embedding = method.embed(batch) if has_embeddings else None
            except OutlandError:
                has_embeddings, embedding = False, None
            outputs.append((method(batch) if embedding is None else method.to_logits(embedding)).float().cpu())
            embeddings += [] if embedding is None else [embedding.float().cpu()]
    return torch.cat(outputs).clone(), torch.cat(embeddings).clone() if embeddings else None
