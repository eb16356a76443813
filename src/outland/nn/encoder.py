"""A stack of message-passing layers: graphs in, node embeddings out."""

import torch
from torch import Tensor, nn

from outland.graphs import Features, GraphBatch
from outland.nn.base import Encoder, Pool
from outland.nn.convs import CONVS, Conv, LayerInputs
from outland.nn.layers import Dropout, FeatureEncoder, fold_batch_norm, linear_before, linear_norm, norm
from outland.nn.readout import LINEAR
from outland.nn.settings import BackboneSettings
from outland.ops import Rows


class NodeEncoder(Encoder):
    """GIN, GCN, GCNII or GAT layers.

    After each layer come batch norm, ReLU (not after the last), dropout, and the residual if asked for.
    """

    def __init__(self, settings: BackboneSettings, inputs: Features | int, edges: Features | None = None) -> None:
        # GCNII mixes the first states into every layer, so they must have its width.
        super().__init__(settings, inputs, project=settings.kind == "gcnii")
        inputs, width = self.in_width, settings.width
        widths = [inputs] + [width] * (settings.layers - 1)
        conv = CONVS[settings.kind]
        self.convs = nn.ModuleList(conv(w, settings, depth, settings.batch_norm) for depth, w in enumerate(widths, 1))
        self.norms = nn.ModuleList(norm(width, settings.batch_norm) for _ in widths)
        self.dropout = Dropout(settings.dropout)
        # GAT adds an edge's vector after its linear map, the others before.
        edge_widths = [width] * len(widths) if settings.kind == "gat" else widths
        self.edges = nn.ModuleList(FeatureEncoder(edges, w) for w in edge_widths) if edges else None
        self.virtual = VirtualNode(settings) if settings.virtual_node and settings.layers > 1 else None
        self.join = nn.Linear(width * settings.layers, width) if settings.jumping == "concat" else None

    def edge_states(self, batch: GraphBatch) -> list[Rows]:
        """Edge features as vectors `[E, d]` for each layer; none where edges have no features."""
        lookup = CONVS[self.settings.kind].looks_up_edges
        return [] if self.edges is None else [encode(batch.edge_attr, lookup) for encode in self.edges]

    def forward(
        self,
        batch: GraphBatch,
        node_weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
        states: Tensor | None = None,
        edge_states: list[Rows] | None = None,
        pool: Pool | None = None,
    ) -> Tensor:
        """Node embeddings `[N, width]`, or what a readout makes of them; the arguments are those of `Encoder`."""
        x = self.entry(batch, node_weight, states)
        edge_states = self.edge_states(batch) if edge_states is None else edge_states
        no_states: list[Rows | None] = [None] * len(self.convs)
        initial, outputs = x, []
        memory = None if self.virtual is None else self.virtual.start(batch)
        ends_in_relu = not self.settings.residual and memory is None  # nothing is added after it
        layers = zip(self.convs, self.norms, edge_states or no_states, strict=True)
        for depth, (conv, norm_layer, edge_state) in enumerate(layers):
            assert isinstance(conv, Conv)
            is_last = depth == len(self.convs) - 1
            h = conv.before_last(x, LayerInputs(batch, edge_weight, edge_state, depth > 0 and ends_in_relu), initial)
            if is_last and pool is not None and (pooled := self.pool_early(h, conv, norm_layer, pool)) is not None:
                return pooled
            after = (batch.node_mask, not is_last, self.dropout)
            h = norm_layer(h, *after) if conv.last is None else linear_norm(conv.last, norm_layer, h, *after)
            if self.settings.residual and h.shape == x.shape:
                h = h + x
            if self.virtual is not None and memory is not None and not is_last:
                memory = self.virtual(memory, h, batch, node_weight)
                h = h + batch.broadcast_to_nodes(memory)
            outputs.append(x := h)
        return self._jump(outputs) if pool is None else pool(self._jump(outputs))

    def pool_early(self, h: Tensor, conv: Conv, norm: nn.Module, pool: Pool) -> Tensor | None:
        """The readout taken before the last linear map instead of after it; None where more than that map is left.

        A sum of mapped rows is the mapped sum, and there are fewer graphs than nodes.
        """
        is_linear = self.settings.pool in LINEAR
        if conv.last is None or not is_linear or self.settings.residual or self.settings.jumping != "last":
            return None
        folded = fold_batch_norm(conv.last, norm, self.dropout)
        if folded is None:
            return None
        weight, bias = folded
        return torch.addcmul(pool(h) @ weight.T, pool(h.new_ones(len(h), 1)), bias)

    def _jump(self, outputs: list[Tensor]) -> Tensor:
        if self.join is not None:
            joined: Tensor = self.join(torch.cat(outputs, dim=1))
            return joined
        match self.settings.jumping:
            case "sum":
                return torch.stack(outputs).sum(0)
            case "max":
                return torch.stack(outputs).amax(0)
            case _:
                return outputs[-1]


class VirtualNode(nn.Module):
    """A node joined to every node of its graph (Gilmer et al., ICML 2017), one learned vector at the start.

    It pools the nodes through their weight: a node that is masked out does not reach it. It acts between layers, so a
    stack of one layer has no use for it.
    """

    def __init__(self, settings: BackboneSettings) -> None:
        super().__init__()
        width = settings.width
        self.initial = nn.Parameter(torch.zeros(width))
        normed = settings.batch_norm
        self.expand, self.expand_norm = linear_before(normed, width, 2 * width), norm(2 * width, normed)
        self.contract, self.contract_norm = linear_before(normed, 2 * width, width), norm(width, normed)

    def start(self, batch: GraphBatch) -> Tensor:
        """The first memory of each graph `[B, width]`."""
        return self.initial.expand(batch.num_graphs, -1)

    def forward(self, memory: Tensor, x: Tensor, batch: GraphBatch, node_weight: Tensor | None) -> Tensor:
        """The next memory of each graph, from its nodes and the last one."""
        weighted = x if node_weight is None else x * node_weight[:, None]
        pooled = batch.sum_nodes(weighted) + memory
        hidden = linear_norm(self.expand, self.expand_norm, pooled, batch.graph_mask, relu=True)
        return linear_norm(self.contract, self.contract_norm, hidden, batch.graph_mask, relu=True)
