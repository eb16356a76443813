"""The network's settings, the same for every method."""

from dataclasses import dataclass
from typing import Literal

from outland.settings import check_ranges

BackboneName = Literal["gin", "gcn", "gcnii", "gat"]


@dataclass(frozen=True)
class BackboneSettings:
    """The network that every method is built of.

    Args:
        kind: the message-passing layer.
        layers: how many.
        width: hidden width d.
        dropout: after every layer.
        batch_norm: normalise after every layer and inside GIN's own network.
        residual: add a layer's input to its output where the widths agree.
        jumping: what leaves the stack: the last layer, or sum, maximum or projected concatenation of all.
        virtual_node: one more node a graph, joined to all, pooled through the node weight.
        pool: readout over nodes.
        head: `linear`, or `mlp` with one hidden layer of 2d.
        init: PyTorch's `default`, or `kaiming` normal on every linear layer.
        heads: attention heads (GAT).
        alpha, theta: initial residual and identity mapping (GCNII).
    """

    kind: BackboneName = "gin"
    layers: int = 4
    width: int = 300
    dropout: float = 0.5
    batch_norm: bool = True
    residual: bool = False
    jumping: Literal["last", "sum", "max", "concat"] = "last"
    virtual_node: bool = False
    pool: Literal["mean", "sum"] = "mean"
    head: Literal["linear", "mlp"] = "linear"
    init: Literal["default", "kaiming"] = "default"
    heads: int = 4
    alpha: float = 0.1
    theta: float = 0.5

    def __post_init__(self) -> None:
        check_ranges(self, "backbone", layers=(1, 1000), width=(1, None), heads=(1, None), dropout=(0, 0.99))
        check_ranges(self, "backbone", alpha=(0, 1), theta=(0, None))
