"""Small networks that tests share."""

import dataclasses

import torch

from outland.nn import BackboneSettings, GraphNet
from tests.cases import doubled

__all__ = ["OPTIONS", "doubled", "network", "without_edges"]

SETTINGS = BackboneSettings(width=8, heads=2, layers=3, dropout=0.0)
OPTIONS = {
    "plain": {},
    "residual": {"residual": True},
    "sum": {"jumping": "sum"},
    "max": {"jumping": "max"},
    "concat": {"jumping": "concat"},
    "virtual": {"virtual_node": True},
    "mlp": {"head": "mlp", "pool": "sum"},
    "readout max": {"pool": "max"},
    "readout softmax": {"pool": "softmax", "masked_readout": True},
    "readout attention": {"pool": "attention", "unit_readout": True},
    "no norm": {"batch_norm": False, "virtual_node": True},
}


def network(kind, schema, seed=0, **options) -> GraphNet:
    torch.manual_seed(seed)
    net = GraphNet(dataclasses.replace(SETTINGS, kind=kind, **options), schema).double()
    for module in net.modules():  # running statistics away from their trivial start
        if isinstance(module, torch.nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return net


def without_edges(graphs):
    bare = [graph.clone() for graph in graphs]
    for graph in bare:
        graph.edge_index = graph.edge_index[:, :0]
        if graph.edge_attr is not None:
            graph.edge_attr = graph.edge_attr[:0]
    return bare
