"""GNNExplainer of PyG on any method, for many graphs at once."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.nn import MessagePassing

from outland.devices import one_thread
from outland.errors import OutlandError
from outland.graphs import Batches, GraphBatch, PackedGraphs
from outland.methods import Method
from outland.models.members import BATCH_SIZE
from outland.nn.weighted_messages import weighted_messages

EPOCHS = 100  # PyG's; whether more are better depends on the model


class ExplainableMethod(nn.Module):
    """A method on a batch as the module `model(x, edge_index)` that PyG's explainers take: logits of all classes.

    PyG gives an edge mask to the `MessagePassing` layers of a model (`set_masks`), and ours are none: they take
    explicit weights. So there is one such layer here that passes no messages and only receives the mask, whose
    weights then go to every encoder of the method. Nothing of PyG's explainers has to be rewritten for that.
    """

    def __init__(self, method: Method, batch: GraphBatch) -> None:
        super().__init__()
        self.method, self.batch, self.receiver = method, batch, MessagePassing()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits `[B, C]` of the batch with these node features, its edges weighed by the mask where there is one."""
        mask = self.receiver._edge_mask
        if mask is not None and self.receiver._apply_sigmoid:
            mask = mask.sigmoid()
        with nullcontext() if mask is None else weighted_messages(self.method, mask):
            logits: Tensor = self.method(self.batch.replace(x=x))
        return logits if logits.shape[1] > 1 else torch.cat([torch.zeros_like(logits), logits], 1)


def gnn_explainer(method: Method, graphs: PackedGraphs, epochs: int = EPOCHS, seed: int = 0) -> Tensor:
    r"""Edge weights `[E]` by GNNExplainer (Ying et al., NeurIPS 2019), as PyG has it, of the predicted classes.

    The graphs of a batch are one disjoint union and are explained together. On its own, a graph with edges
    :math:`E_g` has the loss

    .. math:: \ell_g + 0.005 \sum_{e \in E_g} m_e + \frac{1}{|E_g|} \sum_{e \in E_g} H(m_e)

    and the union of B graphs the mean of :math:`\ell_g`, the sum over all edges and the mean over all edges. With
    0.005 / B for the sum this is 1/B of the sum of the losses of single graphs, but for the entropy: its weight in a
    graph is :math:`|E_g|` over the mean number of edges of the batch, 1 only where all graphs have equally many.
    Adam's steps do not depend on the factor 1/B, as long as gradients are far above its ε. The initial masks lie
    closer to one half, for PyG's standard deviation falls with the number of nodes; alone, a small graph's order
    owes much to their draw.
    """
    task = method.schema.task
    if task.kind == "regression" or (task.kind == "binary" and task.outputs > 1):
        raise OutlandError(f"GNNExplainer explains one label with classes here, and this is {task.kind}")
    device, weights = next(method.parameters()).device, []
    with _frozen(method), one_thread(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for batch in Batches(graphs.to(device), torch.arange(len(graphs)), BATCH_SIZE):
            weights.append(_explain(method, batch, epochs).cpu())
    return torch.cat(weights)


def _explain(method: Method, batch: GraphBatch, epochs: int) -> Tensor:
    if not batch.num_edges:
        return batch.x.new_zeros(0, dtype=torch.float)
    algorithm = GNNExplainer(epochs, edge_size=GNNExplainer.default_coeffs["edge_size"] / batch.num_graphs)
    explainer = Explainer(
        ExplainableMethod(method, batch),
        algorithm,
        explanation_type="model",
        edge_mask_type="object",
        model_config=ModelConfig("multiclass_classification", "graph", "raw"),
    )
    mask: Tensor = explainer(batch.x, batch.edge_index).edge_mask
    return mask


@contextmanager
def _frozen(method: Method) -> Iterator[None]:
    """A context in which a method is in evaluation mode and no parameter of it gets a gradient."""
    trained, was_training = [p for p in method.parameters() if p.requires_grad], method.training
    for parameter in trained:
        parameter.requires_grad_(False)
    method.eval()
    try:
        yield
    finally:
        method.train(was_training)
        for parameter in trained:
            parameter.requires_grad_(True)
