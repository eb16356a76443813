"""What a prediction rests on: the method's own stable mask, or the gradient's saliency."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from outland.devices import one_thread
from outland.errors import OutlandError
from outland.graphs import Batches, GraphBatch, PackedGraphs
from outland.methods import Method
from outland.models.members import BATCH_SIZE
from outland.models.model import TrainedModel
from outland.nn import Mask
from outland.nn.layers import FeatureEncoder

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

STABLE, SALIENCY = "stable mask", "gradient saliency"


@dataclass(frozen=True)
class Weights:
    """A weight from 0 to 1 for every node and edge of graphs, one after another, and where they come from."""

    node: Tensor
    edge: Tensor
    kind: str

    def by_graph(self, graphs: PackedGraphs) -> list[tuple[Tensor, Tensor]]:
        """Node and edge weights of each graph."""
        nodes = self.node.split(graphs.node_counts.tolist())
        return list(zip(nodes, self.edge.split(graphs.edge_counts.tolist()), strict=True))


def explain_weights(model: TrainedModel, graphs: PackedGraphs, target: int = 0) -> Weights:
    """Node and edge weights that the model's predictions of a target rest on."""
    method = _require_method(model)
    kind = STABLE if method.has_masks else SALIENCY
    node, edge = [], []
    with one_thread():
        for batch in Batches(graphs.to(model.device), torch.arange(len(graphs)), BATCH_SIZE):
            mask = _stable_mask(method, batch) if kind == STABLE else saliency(method, batch, target)
            node.append(mask.node.detach().float().cpu())
            edge.append(mask.edge.detach().float().cpu())
    return Weights(torch.cat(node), torch.cat(edge), kind)


def _require_method(model: TrainedModel) -> Method:
    if model.method is None:
        raise OutlandError(f"{model.name} has no network: nothing weighs its atoms")
    return model.method


def weights_phrase(model: TrainedModel) -> str:
    """How the weights come about, for a reader."""
    method = _require_method(model)
    if method.has_masks:
        return f"the stable mask that {method.name} has learned: what is shaded weighs at least one half"
    return (
        f"gradient saliency, for {method.name} learns no mask: what is shaded moves the prediction at least half "
        f"as much as the {'atom' if model.kind == 'molecules' else 'node'} that moves it most"
    )


@torch.inference_mode()
def _stable_mask(method: Method, batch: GraphBatch) -> Mask:
    method.eval()
    return method.masks(batch)["stable"].symmetric(batch)


def saliency(method: Method, batch: GraphBatch, target: int = 0) -> Mask:
    r"""How much each node's input moves the output z of the predicted class, or of a target where there are several.

    It is :math:`|x_i \cdot \partial z / \partial x_i|`, 1 at the most a graph; an edge has the mean of its ends.
    """
    method.eval()
    inputs: list[Tensor] = []

    def retain(_: Any, __: Any, output: Tensor) -> Tensor:
        if output.shape[0] == batch.num_nodes and not output.requires_grad:
            output = output.detach().requires_grad_(True)
        if output.shape[0] == batch.num_nodes and output.requires_grad:
            output.retain_grad()
            inputs.append(output)
        return output

    hooks = [module.register_forward_hook(retain) for module in method.modules() if isinstance(module, FeatureEncoder)]
    try:
        with torch.enable_grad():
            outputs = method(batch)
            predicted = outputs.argmax(1, keepdim=True)
            column = predicted if method.schema.task.kind == "multiclass" else torch.full_like(predicted, target)
            outputs.gather(1, column).sum().backward()
    finally:
        for hook in hooks:
            hook.remove()
        method.zero_grad(set_to_none=True)
    change = outputs.new_zeros(batch.num_nodes)
    for states in inputs:
        if states.grad is not None:
            change = change + (states.detach() * states.grad).sum(1).abs()
    largest = change.new_zeros(batch.num_graphs).scatter_reduce(0, batch.node_batch, change, "amax")
    node = change / batch.broadcast_to_nodes(largest.clamp(min=1e-12))
    return Mask(node, (batch.at_source(node) + batch.at_target(node)) / 2)


def explain_graphs(model: TrainedModel, graphs: PackedGraphs) -> list["Explanation"]:
    """One PyG explanation a graph: `x`, `edge_index`, `node_mask` `[n, 1]`, `edge_mask` `[E]`, `prediction`."""
    from torch_geometric.explain import Explanation

    weights, outputs = explain_weights(model, graphs), model.predict(graphs).outputs
    explanations = []
    for index, (data, (node, edge)) in enumerate(zip(graphs.to_data_list(), weights.by_graph(graphs), strict=True)):
        explanation = Explanation(
            x=data.x.long() if not data.x.is_floating_point() else data.x,
            edge_index=data.edge_index,
            node_mask=node[:, None],
            edge_mask=edge,
            prediction=outputs[index : index + 1],
            kind=weights.kind,
        )
        if data.edge_attr is not None:
            explanation.edge_attr = data.edge_attr
        explanations.append(explanation)
    return explanations
