"""The network's settings, the same for every method."""

from dataclasses import dataclass
from typing import Literal

BackboneName = Literal["gin", "gcn", "gcnii", "gat"]


@dataclass(frozen=True)
class BackboneSettings:
    """The network that every method is built of.

    Args:
        kind: the message-passing layer.
        layers: how many.
        width: hidden width d.
        dropout: after every layer.
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
    residual: bool = False
    jumping: Literal["last", "sum", "max", "concat"] = "last"
    virtual_node: bool = False
    pool: Literal["mean", "sum"] = "mean"
    head: Literal["linear", "mlp"] = "linear"
    init: Literal["default", "kaiming"] = "default"
    heads: int = 4
    alpha: float = 0.1
    theta: float = 0.5
