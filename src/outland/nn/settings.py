"""The network's settings, the same for every method."""

from typing import Annotated, Literal

from pydantic import Field

from outland.settings import Fraction, NonNegative, settings

BackboneName = Literal["gin", "gcn", "gcnii", "gat", "dmpnn"]
PoolName = Literal["mean", "sum", "max", "softmax", "attention"]


@settings("backbone")
class BackboneSettings:
    """The network that every method is built of.

    Args:
        kind: the message-passing layer; `dmpnn` passes messages between directed bonds.
        layers: how many.
        width: hidden width d.
        dropout: after every layer.
        batch_norm: normalise after every layer and inside GIN's own network; after the last of `dmpnn`.
        residual: add a layer's input to its output where the widths agree; `dmpnn` has residuals of its own.
        jumping: what leaves the stack: the last layer, or sum, maximum or projected concatenation of all.
        virtual_node: one more node a graph, joined to all, pooled through the node weight.
        pool: readout over nodes: `mean`, `sum`, `max`, `softmax` (log-sum-exp with a learned temperature), `attention`.
        unit_readout: divide the readout by its L2 norm.
        masked_readout: let a mask's node weights act in a mean or sum; in the other readouts they do.
        head: `linear`, or `mlp` with one hidden layer of 2d.
        init: PyTorch's `default`, or `kaiming` normal on every linear layer.
        heads: attention heads (GAT).
        alpha, theta: initial residual and identity mapping (GCNII).
        descriptors: add a linear map of the molecules' RDKit descriptors to the readout.
    """

    kind: BackboneName = "gin"
    layers: Annotated[int, Field(ge=1, le=1000)] = 4
    width: Annotated[int, Field(ge=1, le=8192)] = 300
    dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.5
    batch_norm: bool = True
    residual: bool = False
    jumping: Literal["last", "sum", "max", "concat"] = "last"
    virtual_node: bool = False
    pool: PoolName = "mean"
    head: Literal["linear", "mlp"] = "linear"
    init: Literal["default", "kaiming"] = "default"
    heads: Annotated[int, Field(ge=1, le=1024)] = 4
    alpha: Fraction = 0.1
    theta: NonNegative = 0.5
    descriptors: bool = False
    unit_readout: bool = False
    masked_readout: bool = False
