"""Labels beside predictions as a table streams by: at its end the model is scored, and nothing is read again."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

from outland.chem.packing import factorize
from outland.errors import OutlandError
from outland.models.evaluation import score_predictions
from outland.models.model import Predictions, TrainedModel
from outland.models.named_graphs import label_reader
from outland.models.summary import PartScore
from outland.tables.reading import Cells
from outland.tables.rows import QuarantinedRow

MOST_SCORED = 20_000  # rows; of more there are no scores


class ScoredRows:
    """What a model says of the labelled rows of a table, in bounded memory.

    Args:
        model: its targets are columns of the table.
        path: the table.
    """

    def __init__(self, model: TrainedModel, path: Path) -> None:
        self.model, self.path = model, path
        self.rows = 0
        self._reader = label_reader(model, path, model.targets)
        self._refused: QuarantinedRow | None = None
        self._labels: list[list[float]] = []
        self._scaffolds: list[str] = []
        self._predictions: list[Predictions] = []

    @property
    def is_full(self) -> bool:
        """Whether there are more rows than are scored."""
        return self.rows > MOST_SCORED

    def add(self, cells: Iterable[Cells], indices: list[int], scaffolds: list[str], predictions: Predictions) -> None:
        """Take rows with their index in the table, their scaffold, empty where there is none, and their predictions."""
        self.rows = indices[-1] + 1
        if self.is_full:
            self._labels, self._scaffolds, self._predictions = [], [], []
            return
        used = []
        for position, (index, row) in enumerate(zip(indices, cells, strict=True)):
            labels, problem = self._reader.read(row)
            if problem is None:
                used.append(position)
                self._labels.append(labels)
                self._scaffolds.append(scaffolds[position])
            elif self._refused is None:
                self._refused = QuarantinedRow(index + 1, *problem)
        distances = predictions.distances
        kept = Predictions(predictions.outputs[used], distances=None if distances is None else distances[used])
        self._predictions.append(kept)

    def scores(self) -> list[PartScore]:
        """Scores on each target, as `evaluate_models` has them; an error where no row has a label that can be used."""
        if not self._labels:
            raise OutlandError(f"no row of {self.path} can be used; the first: {self._refused}")
        parts = self._predictions
        distances = [part.distances for part in parts if part.distances is not None]
        predictions = Predictions(
            torch.cat([part.outputs for part in parts]), distances=torch.cat(distances) if distances else None
        )
        codes, singles = factorize(self._scaffolds).numpy(), -1.0 - np.arange(len(self._scaffolds))
        groups = np.where(np.array(self._scaffolds) == "", singles, codes)
        labels = torch.tensor(self._labels).double().numpy()
        return score_predictions([self.model], labels, groups, [predictions], self.path.name)
