"""What predictions rest on: contributions of nodes with a sign, or the stable mask that a method has learned."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from outland.devices import one_thread
from outland.errors import OutlandError
from outland.graphs import Batches, PackedGraphs
from outland.models.contributions import contributions
from outland.models.members import BATCH_SIZE
from outland.models.model import TrainedModel

if TYPE_CHECKING:
    from torch_geometric.explain import Explanation

View = Literal["contributions", "mask"]


@torch.inference_mode()
def stable_mask(model: TrainedModel, graphs: PackedGraphs) -> tuple[list[Tensor], list[Tensor]]:
    """Weights from 0 to 1 of the nodes and of the edges of each graph, as the first network has learned them."""
    method = model.method
    if method is None or not method.has_masks:
        raise OutlandError(f"{model.name} has learned no mask: show contributions instead, which every model has")
    node, edge = [], []
    with one_thread():
        for batch in Batches(graphs.to(model.device), torch.arange(len(graphs)), BATCH_SIZE):
            mask = method.eval().masks(batch)["stable"].symmetric(batch)
            node.append(mask.node.float().cpu())
            edge.append(mask.edge.float().cpu())
    nodes = torch.cat(node).split(graphs.node_counts.tolist())
    return list(nodes), list(torch.cat(edge).split(graphs.edge_counts.tolist()))


def explain_graphs(
    model: TrainedModel, graphs: PackedGraphs, molecules: Sequence[Any] | None = None, show: View = "contributions"
) -> list["Explanation"]:
    """One PyG explanation a graph: `x`, `edge_index`, `node_mask` `[n, 1]`, `edge_mask` `[E]`, `prediction`, `kind`.

    The masks are signed contributions, of edges the mean of their ends'; or the stable mask, from 0 to 1.
    """
    from torch_geometric.explain import Explanation

    outputs = model.predict(graphs).outputs
    if show == "mask":
        nodes, edges = stable_mask(model, graphs)
    else:
        nodes = [part.float() for part in contributions(model, graphs, molecules, judge=False).by_graph(graphs)]
        ends = graphs.edge_index.long().split(graphs.edge_counts.tolist(), dim=1)
        edges = [node[pairs].mean(0) for node, pairs in zip(nodes, ends, strict=True)]
    explanations = []
    for index, data in enumerate(graphs.to_data_list()):
        explanation = Explanation(
            x=data.x.long() if not data.x.is_floating_point() else data.x,
            edge_index=data.edge_index,
            node_mask=nodes[index][:, None],
            edge_mask=edges[index],
            prediction=outputs[index : index + 1],
            kind="stable mask" if show == "mask" else "contributions",
        )
        if data.edge_attr is not None:
            explanation.edge_attr = data.edge_attr
        explanations.append(explanation)
    return explanations
