"""Synthetic graphs of the sizes of the benchmark datasets, for timing where the real ones are not at hand."""

import torch
from torch_geometric.data import Data

from outland.datasets import find_dataset
from outland.graphs import Features, PackedGraphs, Schema, Splits, Task

ATOMS = Features(9, (119, 5, 12, 12, 10, 6, 6, 2, 2))
BONDS = Features(3, (5, 6, 2))


def synthetic_splits(name: str, graphs: int) -> Splits:
    """A set like `motif`, `cmnist`, `molbbbp` or `molhiv`, with so many training graphs."""
    if name == "motif":
        return find_dataset("motif").load("base", "covariate").limit(graphs)
    generator = torch.Generator().manual_seed(0)
    made = [
        digit(generator) if name == "cmnist" else molecule(generator, 24 if name == "molbbbp" else 25)
        for _ in range(graphs)
    ]
    classes = Task("multiclass", 10, "accuracy") if name == "cmnist" else Task("binary", 1, "rocauc")
    schema = Schema(Features(3), classes) if name == "cmnist" else Schema(ATOMS, classes, BONDS)
    packed = PackedGraphs.from_data_list(made)
    index = torch.arange(graphs)
    return Splits(packed, {"train": index, "val": index[: graphs // 4], "test": index[: graphs // 4]}, schema)


def digit(generator: torch.Generator) -> Data:
    """75 superpixels and about 1,393 edges."""
    position = torch.rand(75, 2, generator=generator)
    apart = torch.cdist(position, position).fill_diagonal_(9.0)
    near = apart < apart.flatten().kthvalue(1393).values
    label = torch.randint(10, (1,), generator=generator)
    return Data(x=torch.rand(75, 3, generator=generator), edge_index=(near | near.T).nonzero().T, y=label)


def molecule(generator: torch.Generator, atoms: int) -> Data:
    """A tree of atoms with two rings closed, each bond twice."""
    atoms = int(torch.randint(atoms - 8, atoms + 9, (1,), generator=generator))
    parent = [int(torch.randint(max(0, i - 3), i, (1,), generator=generator)) for i in range(1, atoms)]
    bonds = [*zip(parent, range(1, atoms), strict=True), (0, atoms // 2), (atoms // 3, atoms - 1)]
    pairs = torch.tensor([pair for u, v in bonds for pair in ((u, v), (v, u))]).T
    kinds = torch.stack([torch.randint(size, (len(bonds),), generator=generator) for size in BONDS.vocabulary], 1)
    x = torch.stack([torch.randint(size, (atoms,), generator=generator) for size in ATOMS.vocabulary], 1)
    y = torch.randint(2, (1, 1), generator=generator).float()
    return Data(x=x, edge_index=pairs, edge_attr=kinds.repeat_interleave(2, 0), y=y)
