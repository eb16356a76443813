"""Evidence with one thing more each, for molecules. Prototypes.

Their log is in docs/ours.md; `python benchmarks/develop.py` runs them on draws of molecules.
"""

import torch
from torch import Tensor, nn

from outland.graphs import GraphBatch, Schema
from outland.methods.base import Progress, Terms
from outland.methods.evidence import Evidence, EvidenceSettings
from outland.nn import BackboneSettings, Dropout
from outland.nn.convs import GCN, LayerInputs
from outland.nn.layers import FeatureEncoder, norm
from outland.settings import Count, Fraction, settings


@settings("method")
class MolecularSettings(EvidenceSettings):
    """Hyper-parameters of the prototype.

    Args:
        channels: rate at which channels of the embedded atoms are dropped, for all atoms of a graph together.
        more: gated layers beyond the first.
        dropout: rate of dropout after the gated layers.
        buckets: of the hashed neighbourhoods of each atom, counted and added to the embedding of the graph.
        radius: of the largest neighbourhood.
    """

    walks: Count = 0
    channels: Fraction = 0.0
    more: Count = 0
    dropout: Fraction = 0.0
    buckets: Count = 0
    radius: Count = 2


class Molecular(Evidence):
    """See `MolecularSettings`."""

    name = "molecular"
    Settings = MolecularSettings
    settings: MolecularSettings

    def __init__(self, schema: Schema, backbone: BackboneSettings, settings: MolecularSettings | None = None) -> None:
        settings = MolecularSettings() if settings is None else settings
        super().__init__(schema, backbone, settings)
        width = backbone.width
        self.atoms = FeatureEncoder(schema.node, width)
        self.norms = nn.ModuleList(norm(width, backbone.batch_norm) for _ in range(settings.more))
        self.layers = nn.ModuleList(GCN(width, backbone, 1) for _ in range(settings.more))
        self.after = Dropout(settings.dropout)
        self.thinned_inputs = Dropout(0.5)
        self.counts = nn.Linear(settings.buckets, width) if settings.buckets else None
        if schema.edge is not None and settings.channels:
            self.classifier.encoder.features = None

    def loss(self, batch: GraphBatch, progress: Progress) -> Terms:
        """As Evidence, of whole graphs."""
        return {"risk": self.risk(self.classifier.head(self.readout(batch), batch), batch)}

    def readout(self, batch: GraphBatch, edge: Tensor | None = None) -> Tensor:
        """Embeddings of graphs."""
        states, settings = None, self.settings
        if settings.channels:
            states = self.atoms(batch.x)
            if self.training:
                shape = (batch.num_graphs + 1, states.shape[1])
                uniform = torch.rand(shape, generator=self.random, device=states.device)
                scale = (uniform >= settings.channels).to(states.dtype) / (1 - settings.channels)
                states = states * scale[batch.node_batch]
        h = self.classifier.encoder(batch, None, edge, states)
        node = self.node_gate(h).squeeze(1).sigmoid()
        source, target = self.edge_gate.weight.squeeze(0).split(h.shape[1])
        of_source, of_target = h @ source, h @ target
        gate = (batch.at_source(of_source[:, None]) + batch.at_target(of_target[:, None])).squeeze(1)
        weight = (gate + self.edge_gate.bias).sigmoid()
        weight = weight if edge is None else weight * edge
        h = h * node[:, None]
        for norm_layer, layer in zip((self.norm, *self.norms), (self.layer, *self.layers), strict=True):
            h = self.after(layer(norm_layer(h, batch.node_mask), LayerInputs(batch, weight, None), h).relu())
        z: Tensor = self.classifier.readout(h, batch, node)
        return z if self.counts is None else z + self.counts(self.thinned_inputs(self.neighbourhoods(batch)))

    def neighbourhoods(self, batch: GraphBatch) -> Tensor:
        """Logarithms of the numbers of neighbourhoods in each bucket `[B, buckets]`."""
        columns = batch.x.long()
        primes = torch.arange(columns.shape[1], device=columns.device) * 7919 + 104729
        label = _mix((columns + 1) * primes).sum(1)
        source, target = batch.edge_index
        assert batch.edge_attr is not None
        bonds = _mix((batch.edge_attr.long() + 1) * (primes[: batch.edge_attr.shape[1]] + 31)).sum(1)
        found = []
        for depth in range(self.settings.radius + 1):
            found.append(label + depth * 1299709)
            message = _mix(label[source] * 3 + bonds)
            label = _mix(label * 5 + torch.zeros_like(label).index_add_(0, target, message))
        bucket = torch.cat([_mix(each) % self.settings.buckets for each in found])
        graph = batch.node_batch.repeat(len(found))
        counts = torch.zeros((batch.num_graphs + 1) * self.settings.buckets, device=columns.device)
        counts.index_add_(0, graph * self.settings.buckets + bucket, torch.ones_like(bucket, dtype=counts.dtype))
        return counts.reshape(-1, self.settings.buckets)[: batch.num_graphs].log1p()


def _mix(values: Tensor) -> Tensor:
    values = (values ^ (values >> 15)) * 0x2C1B3C6D
    values = (values ^ (values >> 12)) * 0x297A2D39
    return (values ^ (values >> 15)) & 0x7FFFFFFF
