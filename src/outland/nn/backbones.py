"""The encoder of a backbone, by its settings."""

from torch import nn

from outland.graphs import Features
from outland.nn.base import Encoder
from outland.nn.convs import CONVS
from outland.nn.dmpnn import BondEncoder
from outland.nn.encoder import NodeEncoder
from outland.nn.settings import BackboneSettings

BACKBONES: dict[str, type[nn.Module]] = {**CONVS, "dmpnn": BondEncoder}  # what each is, by name


def build_encoder(settings: BackboneSettings, inputs: Features | int, edges: Features | None = None) -> Encoder:
    """A new encoder of node features, or of states of this width that another one hands on, and of edge features."""
    kind = BondEncoder if settings.kind == "dmpnn" else NodeEncoder
    return kind(settings, inputs, edges)
