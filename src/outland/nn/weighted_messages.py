"""Weights on the messages of a whole network, from outside it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any

from torch import Tensor, nn

from outland.nn.base import Encoder
from outland.nn.closed_walks import ClosedWalks
from outland.nn.convs import Conv, LayerInputs


@contextmanager
def weighted_messages(module: nn.Module, weight: Tensor) -> Iterator[None]:
    """A context in which all encoders of a module, its layers outside encoders and its walks weigh the edges `[E]`.

    The weight multiplies those that the module gives its encoders itself, and gets a gradient. Weight 0 is the graph
    without the edge, except to what reads edges and passes no messages: means over a graph's edges (GSAT, GALA), a
    share of them (DIR, CIGA), the edges of pooled graphs (StableGNN). Closed walks only see whether an edge is there.
    """

    def before(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        given = signature(part.forward).bind(*args, **kwargs).arguments
        return (), {**given, "edge_weight": _product(given.get("edge_weight"), weight)}

    def before_layer(_: Conv, args: tuple[Tensor, LayerInputs, Tensor]) -> tuple[Tensor, LayerInputs, Tensor]:
        x, inputs, initial = args
        return x, replace(inputs, edge_weight=_product(inputs.edge_weight, weight)), initial

    with ExitStack() as stack:
        for part in module.modules():
            if isinstance(part, Encoder | ClosedWalks):
                stack.callback(part.register_forward_pre_hook(before, with_kwargs=True).remove)
            elif isinstance(part, Conv):  # encoders call their layers' `before_last`, which has no hooks
                stack.callback(part.register_forward_pre_hook(before_layer).remove)
        yield


def _product(given: Tensor | None, weight: Tensor) -> Tensor:
    return weight if given is None else given * weight
