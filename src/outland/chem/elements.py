"""Elements of molecules: those of a set of graphs, and those of a graph that are not among them."""

import torch
from torch import Tensor

from outland.graphs import PackedGraphs

# By the category of an atom's first feature, which is the atomic number − 1; the last is an atom of no element.
_TABLE = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts "
    "Og *"
)
SYMBOLS = _TABLE.split()
_HYDROGEN = SYMBOLS.index("H")  # rarely an atom of a graph, and in nearly every molecule


def elements(graphs: PackedGraphs, index: Tensor) -> Tensor:
    """The elements of the molecules with these indices, as indices of `SYMBOLS`, unique and sorted."""
    selected = torch.zeros(len(graphs), dtype=torch.bool).index_fill(0, index, True)
    atoms = selected.repeat_interleave(graphs.node_counts)
    unique: Tensor = graphs.x[:, 0][atoms.to(graphs.x.device)].unique()
    return unique.long().cpu()


def unseen_elements(graphs: PackedGraphs, known: Tensor) -> list[str]:
    """Symbols of the elements of each molecule that are not `known`, as `Sn` or `Ba Sn`; hydrogen always is."""
    element, seen = graphs.x[:, 0].long().cpu(), torch.zeros(len(SYMBOLS), dtype=torch.bool)
    seen[known], seen[_HYDROGEN] = True, True
    atoms = (~seen[element]).nonzero()[:, 0]
    molecule = torch.arange(len(graphs)).repeat_interleave(graphs.node_counts.cpu())[atoms]
    unseen: list[set[str]] = [set() for _ in range(len(graphs))]
    for index, number in zip(molecule.tolist(), element[atoms].tolist(), strict=True):
        unseen[index].add(SYMBOLS[number])
    return [" ".join(sorted(symbols)) for symbols in unseen]
