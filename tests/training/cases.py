"""Small trainers that several tests share."""

import dataclasses

import torch

from outland.methods import build_method, method_settings
from outland.nn import BackboneSettings
from outland.training import Trainer, TrainSettings
from outland.training.callbacks import Callback

TINY = BackboneSettings(width=8, layers=3, dropout=0.3)
FRAME = TrainSettings(epochs=3, batch_size=5, eval_batch_size=4, checkpoint_every=1)


class StopsAfter(Callback):
    """Ctrl-C at the end of an epoch, before its checkpoint is written."""

    def __init__(self, epochs):
        self.epochs = epochs

    def on_epoch_end(self, row, metric):
        if row["epoch"] == self.epochs:
            raise KeyboardInterrupt


def trainer(splits, name="aia", seed=0, checkpoints=None, **frame):
    torch.manual_seed(seed)
    method = build_method(name, splits.schema, TINY, method_settings(name, {}))
    return Trainer(method, splits, dataclasses.replace(FRAME, **frame), seed, checkpoints)
