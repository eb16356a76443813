"""A trained model, ready for new graphs: predictions, probabilities, distances."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outland.chem.elements import unseen_elements
from outland.chem.featurizer import are_molecules
from outland.devices import one_thread
from outland.graphs import PackedGraphs, Schema, Task
from outland.methods import Method
from outland.models.calibration import Calibration
from outland.models.conformal import Conformal
from outland.models.expected_error import ExpectedError
from outland.models.knn import KNNDistance
from outland.models.members import BATCH_SIZE, Member, Network, run_networks
from outland.models.similarity import Neighbours
from outland.models.summary import Assessment, TrainingSummary
from outland.models.trees import Trees
from outland.spec import RunSpec

Kind = Literal["molecules", "graphs"]


@dataclass(frozen=True)
class Predictions:
    """What a model says of graphs, before calibration.

    Args:
        outputs: mean over the members `[G, outputs]`.
        embeddings, distances: of the first network `[G, d]`, `[G]`; None where the model has none.
        members: outputs of each member `[G, members, outputs]`.
        similarity: to the nearest training fingerprints `[G]`; None where the model keeps none.
        features: descriptors of molecules `[G, d]`, where there are any.
        unseen: the elements of each molecule that no training molecule has `[G]`; None where these are not known.
    """

    outputs: Tensor
    embeddings: Tensor | None = None
    distances: Tensor | None = None
    members: Tensor | None = None
    similarity: npt.NDArray[np.float64] | None = None
    features: Tensor | None = None
    unseen: list[str] | None = None

    @property
    def are_finite(self) -> npt.NDArray[np.bool_]:
        """Which rows have numbers only `[G]`."""
        finite = self.outputs.isfinite().all(1)
        if self.distances is not None:
            finite &= self.distances.isfinite()
        array: npt.NDArray[np.bool_] = finite.numpy()
        return array


@dataclass(frozen=True)
class TrainedModel:
    """Members whose outputs are averaged, and what else is needed to use them.

    Args:
        members: networks and trees.
        schema: what the numbers of its graphs mean.
        spec: the run that trained it: data, domain, settings of its networks.
        classes: names of the classes of a target, in order; empty where numbers are predicted.
        calibration: of its probabilities.
        training: how it was trained.
        weights: of the members in the mean, non-negative with sum 1; empty for equal ones.
        neighbours: fingerprints of training molecules; None for other graphs.
        expected_error: of predictions, learned on out-of-fold rows.
        conformal: scores of rows not trained on, for sets and intervals.
        distance: of embeddings to training embeddings; None where it has no network.
        assessment: scores on held-out rows, where they were taken.
        reference: training graphs to measure shifts against, where they cannot be loaded from a dataset.
        training_hashes: of the SMILES of training and validation rows (see `duplicates`).
        training_elements: of the training molecules (see `elements`); empty where they are not known.
        source: of the method's file, where it is in a file of its own.
    """

    members: tuple[Member, ...]
    schema: Schema
    spec: RunSpec
    classes: tuple[Any, ...]
    calibration: Calibration
    training: TrainingSummary
    weights: tuple[float, ...] = ()
    distance: KNNDistance | None = None
    neighbours: Neighbours | None = None
    expected_error: ExpectedError | None = None
    conformal: Conformal | None = None
    assessment: Assessment | None = None
    reference: PackedGraphs | None = None
    training_hashes: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    training_elements: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    source: str = ""

    @property
    def network(self) -> Network | None:
        """The first network, which masks, embeddings and distances come from; None where there is none."""
        return next((member for member in self.members if isinstance(member, Network)), None)

    @property
    def method(self) -> Method | None:
        """The method of the first network; None where there is none."""
        return None if self.network is None else self.network.method

    @property
    def reads_counts(self) -> bool:
        """Whether a member reads counts of functional groups, atoms, bonds and rings."""
        return any(isinstance(member, Trees) and member.reads_counts for member in self.members)

    @property
    def name(self) -> str:
        """Names of its members, as in `3 aia and forest`."""
        names = Counter(member.name for member in self.members)
        return " and ".join(name if count == 1 else f"{count} {name}" for name, count in names.items())

    @property
    def task(self) -> Task:
        """What it predicts."""
        return self.schema.task

    @property
    def kind(self) -> Kind:
        """What it reads."""
        return "molecules" if are_molecules(self.schema.node, self.schema.edge) else "graphs"

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
        """Where its networks compute."""
        return torch.device("cpu") if self.method is None else next(self.method.parameters()).device

    def to(self, device: torch.device) -> "TrainedModel":
        """The model, its networks computing on a device."""
        return replace(self, members=tuple(member.to(device) for member in self.members))

    def predict(self, graphs: PackedGraphs) -> Predictions:
        """Outputs, embeddings and distances of graphs, in order."""
        networks = run_networks([member for member in self.members if isinstance(member, Network)], graphs)
        embeddings = networks[0][1] if networks else None
        of_networks = (outputs for outputs, _ in networks)
        members = torch.stack(
            [next(of_networks) if isinstance(member, Network) else member.outputs(graphs) for member in self.members], 1
        )
        distances = None if embeddings is None else self.distances(embeddings)
        similarity = None
        if self.neighbours is not None and "fingerprint" in graphs.extra:
            similarity = self.neighbours.similarity(graphs.extra["fingerprint"])
        features = graphs.extra.get("descriptors")
        unseen = unseen_elements(graphs, self.training_elements) if len(self.training_elements) else None
        return Predictions(self.mean(members), embeddings, distances, members, similarity, features, unseen)

    def mean(self, members: Tensor) -> Tensor:
        """Weighted mean of the outputs of all members `[G, members, outputs]`."""
        if members.shape[1] == 1:
            return members[:, 0]
        weights = members.new_tensor(self.weights or [1 / members.shape[1]] * members.shape[1])
        return (members * weights[:, None]).sum(1)

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
        """Index of the most probable class `[G]`, or `[G, targets]` for several targets."""
        logits = self.calibration.logits(predictions.outputs.double())
        if self.task.kind == "binary":
            return (logits > 0).long().squeeze(1).numpy()
        return logits.argmax(1).numpy()

    def numbers(self, predictions: Predictions) -> npt.NDArray[np.float64]:
        """Predicted numbers in the labels' own units `[G]`, or `[G, targets]` for several."""
        array: npt.NDArray[np.float64] = self.task.in_label_units(predictions.outputs.double()).squeeze(1).numpy()
        return array
