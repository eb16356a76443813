"""What a prediction rests on: the method's own stable mask, or the gradient's saliency."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from outland.devices import one_thread
from outland.estimators.model import BATCH, FittedModel
from outland.graphs import Batches, GraphBatch, PackedGraphs
from outland.methods import Method
from outland.nn import Mask
from outland.nn.features import FeatureEncoder

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

STABLE, SALIENCY = "stable mask", "gradient saliency"


@dataclass(frozen=True)
class Weights:
    """A weight from 0 to 1 for every node and edge of graphs, one after another, and where they come from."""

    node: Tensor
    edge: Tensor
    kind: str


def weigh(model: FittedModel, graphs: PackedGraphs) -> Weights:
    """What the model's predictions rest on."""
    kind = STABLE if model.method.has_masks else SALIENCY
    node, edge = [], []
    with one_thread():
        for batch in Batches(graphs.to(model.device), torch.arange(len(graphs)), BATCH):
            mask = _stable(model.method, batch) if kind == STABLE else saliency(model.method, batch)
            node.append(mask.node.detach().float().cpu())
            edge.append(mask.edge.detach().float().cpu())
    return Weights(torch.cat(node), torch.cat(edge), kind)


@torch.inference_mode()
def _stable(method: Method, batch: GraphBatch) -> Mask:
    method.eval()
    return method.masks(batch)["stable"].symmetric(batch)


def saliency(method: Method, batch: GraphBatch) -> Mask:
    r"""How much each node's input moves the output z of the predicted class.

    It is :math:`|x_i \cdot \partial z / \partial x_i|`, 1 at the most a graph; an edge has the mean of its ends.
    """
    method.eval()
    seen: list[Tensor] = []

    def keep(_: Any, __: Any, output: Tensor) -> Tensor:
        if output.shape[0] == batch.num_nodes and not output.requires_grad:
            output = output.detach().requires_grad_(True)
        if output.shape[0] == batch.num_nodes and output.requires_grad:
            output.retain_grad()
            seen.append(output)
        return output

    hooks = [part.register_forward_hook(keep) for part in method.modules() if isinstance(part, FeatureEncoder)]
    try:
        with torch.enable_grad():
            outputs = method(batch)
            outputs.gather(1, outputs.argmax(1, keepdim=True)).sum().backward()
    finally:
        for hook in hooks:
            hook.remove()
        method.zero_grad(set_to_none=True)
    moved = outputs.new_zeros(batch.num_nodes)
    for states in seen:
        if states.grad is not None:
            moved = moved + (states.detach() * states.grad).sum(1).abs()
    top = moved.new_zeros(batch.num_graphs).scatter_reduce(0, batch.node_batch, moved, "amax")
    node = moved / batch.broadcast_to_nodes(top.clamp(min=1e-12))
    return Mask(node, (batch.at_source(node) + batch.at_target(node)) / 2)


def explain_graphs(model: FittedModel, graphs: PackedGraphs) -> list["Explanation"]:
    """One PyG explanation a graph: `x`, `edge_index`, `node_mask` `[n, 1]`, `edge_mask` `[E]`, `prediction`."""
    from torch_geometric.explain import Explanation

    weights, answers = weigh(model, graphs), model.answer(graphs)
    nodes, edges = graphs.node_counts.tolist(), graphs.edge_counts.tolist()
    masks = zip(weights.node.split(nodes), weights.edge.split(edges), strict=True)
    found = []
    for place, (data, (node, edge)) in enumerate(zip(graphs.to_data_list(), masks, strict=True)):
        one = Explanation(
            x=data.x.long() if not data.x.is_floating_point() else data.x,
            edge_index=data.edge_index,
            node_mask=node[:, None],
            edge_mask=edge,
            prediction=answers.outputs[place : place + 1],
            kind=weights.kind,
        )
        if data.edge_attr is not None:
            one.edge_attr = data.edge_attr
        found.append(one)
    return found
