"""A stack of message-passing layers: graphs in, node embeddings out."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from outland import kernels
from outland.errors import OutlandError
from outland.graphs import Features, GraphBatch
from outland.nn.convs import CONVS, Conv, Wiring
from outland.nn.dropout import Dropout
from outland.nn.features import FeatureEncoder
from outland.nn.norm import folded, linear_before, norm, normed
from outland.nn.settings import BackboneSettings

Pool = Callable[[Tensor], Tensor]


class Encoder(nn.Module):
    """GIN, GCN, GCNII or GAT layers under one signature.

    After each layer come batch norm, ReLU (not after the last), dropout, and the residual if asked for.

    Args:
        settings: kind, depth, width and options.
        inputs: the node features, or the width of hidden states that another encoder hands on.
        edges: the edge features, if there are any.
    """

    def __init__(self, settings: BackboneSettings, inputs: Features | int, edges: Features | None = None) -> None:
        super().__init__()
        if settings.layers < 1:
            raise OutlandError(f"an encoder needs at least one layer, not {settings.layers}")
        width = settings.width
        self.settings = settings
        self.features: FeatureEncoder | None = None
        if isinstance(inputs, Features):
            # GCNII mixes the first states into every layer, so they must have its width.
            project = inputs.vocabulary is not None or settings.kind == "gcnii"
            self.features = FeatureEncoder(inputs, width if project else None)
            inputs = self.features.out_width
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

    def embed(self, batch: GraphBatch) -> Tensor:
        """Raw node features as the vectors that enter the first layer."""
        assert self.features is not None, "this encoder continues another one and takes its states"
        states: Tensor = self.features(batch.x)
        return states

    def edge_states(self, batch: GraphBatch) -> list[Tensor]:
        """Edge features as vectors `[E, d]` for each layer; none where edges have no features."""
        return [] if self.edges is None else [encode(batch.edge_attr) for encode in self.edges]

    def forward(
        self,
        batch: GraphBatch,
        node_weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
        states: Tensor | None = None,
        edge_states: list[Tensor] | None = None,
        pool: Pool | None = None,
    ) -> Tensor:
        """Node embeddings `[N, width]`, or what a readout makes of them.

        Args:
            batch: the graphs.
            node_weight: multiplies each node's input once, at the entry `[N]`.
            edge_weight: multiplies each edge's message in every layer `[E]`.
            states: node vectors to start from instead of `embed(batch)`.
            edge_states: what `edge_states(batch)` gives, where several passes share it.
            pool: the readout, a sum or mean over each graph's nodes.
        """
        x = self.embed(batch) if states is None else states
        if node_weight is not None:
            x = _weigh(x, node_weight)
        edge_states = self.edge_states(batch) if edge_states is None else edge_states
        initial, kept = x, []
        memory = None if self.virtual is None else self.virtual.start(batch)
        added = self.settings.residual or memory is not None  # something may come after the ReLU
        for place, (conv, normalise) in enumerate(zip(self.convs, self.norms, strict=True)):
            assert isinstance(conv, Conv)
            last = place == len(self.convs) - 1
            edge_state = edge_states[place] if edge_states else None
            h = conv.before_last(
                x, Wiring(batch, edge_weight, edge_state, nonnegative=place > 0 and not added), initial
            )
            if last and pool is not None and (found := self._read_early(h, conv, normalise, pool)) is not None:
                return found
            then = (batch.node_mask, not last, self.dropout)
            h = normalise(h, *then) if conv.last is None else normed(conv.last, normalise, h, *then)
            if self.settings.residual and h.shape == x.shape:
                h = h + x
            if self.virtual is not None and memory is not None and not last:
                memory = self.virtual(memory, h, batch, node_weight)
                h = h + batch.spread(memory)
            kept.append(h)
            x = h
        z = self._jump(kept)
        return z if pool is None else pool(z)

    def _read_early(self, h: Tensor, conv: Conv, normalise: nn.Module, pool: Pool) -> Tensor | None:
        """The readout before the last linear map instead of after it, where that map is all that is left.

        A sum of mapped rows is the mapped sum, and there are fewer graphs than nodes.
        """
        if conv.last is None or self.settings.residual or self.settings.jumping != "last":
            return None
        one = folded(conv.last, normalise, self.dropout)
        if one is None:
            return None
        weight, constant = one
        return torch.addcmul(pool(h) @ weight.T, pool(h.new_ones(len(h), 1)), constant)

    def _jump(self, kept: list[Tensor]) -> Tensor:
        if self.join is not None:
            joined: Tensor = self.join(torch.cat(kept, dim=1))
            return joined
        match self.settings.jumping:
            case "sum":
                return torch.stack(kept).sum(0)
            case "max":
                return torch.stack(kept).amax(0)
            case _:
                return kept[-1]


def _weigh(x: Tensor, weight: Tensor) -> Tensor:
    """Each row times its weight."""
    if torch.is_grad_enabled() and kernels.fits(x) and x.dtype == weight.dtype:
        from outland.kernels.scale import scale_rows  # needs Triton

        return scale_rows(x, weight)
    return x * weight[:, None]


class VirtualNode(nn.Module):
    """A node joined to every node of its graph (Gilmer et al., ICML 2017), one learned vector at the start.

    It pools the nodes through their weight: a node that is masked out does not reach it. It acts between layers, so a
    stack of one layer has no use for it.
    """

    def __init__(self, settings: BackboneSettings) -> None:
        super().__init__()
        width = settings.width
        self.initial = nn.Parameter(torch.zeros(width))
        wanted = settings.batch_norm
        self.expand, self.expand_norm = linear_before(wanted, width, 2 * width), norm(2 * width, wanted)
        self.contract, self.contract_norm = linear_before(wanted, 2 * width, width), norm(width, wanted)

    def start(self, batch: GraphBatch) -> Tensor:
        """The first memory of each graph `[B, width]`."""
        return self.initial.expand(batch.num_graphs, -1)

    def forward(self, memory: Tensor, x: Tensor, batch: GraphBatch, node_weight: Tensor | None) -> Tensor:
        """The next memory of each graph, from its nodes and the last one."""
        weighted = x if node_weight is None else x * node_weight[:, None]
        pooled = batch.sum_nodes(weighted) + memory
        hidden = normed(self.expand, self.expand_norm, pooled, batch.graph_mask, relu=True)
        return normed(self.contract, self.contract_norm, hidden, batch.graph_mask, relu=True)
