"""What a person sees of a fit while it trains."""

from typing import Any

from outland.training.callbacks import Callback


class ScoreWatcher(Callback):
    """Shows the validation score alone, errors in the labels' own unit; loss terms are for `outland train`.

    Args:
        inner: who shows it.
        unit: of the labels, which training scales to a spread of 1.
    """

    def __init__(self, inner: Callback, unit: float) -> None:
        self._inner, self._unit = inner, unit

    def on_train_start(self, title: str, epochs: int, steps: int, done: int) -> None:
        """Training begins."""
        self._inner.on_train_start(title, epochs, steps, done)

    def on_step_end(self) -> None:
        """One step was taken."""
        self._inner.on_step_end()

    def on_epoch_end(self, row: dict[str, Any], metric: str) -> None:
        """Pass on what a user of `fit` looks at."""
        score = row["val"][metric]
        own = score * self._unit if metric == "rmse" and score is not None else score
        self._inner.on_epoch_end({**row, "val": {metric: own}, "loss": {}}, metric)

    def on_train_end(self) -> None:
        """Training is over."""
        self._inner.on_train_end()
