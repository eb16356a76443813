"""Elements of molecules, with the graph and without it."""

import pytest
import torch

from outland.chem.elements import SYMBOLS, elements, unseen_elements
from outland.chem.featurizer import featurize, parse, rdkit
from outland.chem.packing import pack_molecules

TEXTS = ["CCO", "C[Sn](C)(C)Cl", "[Ba+2].[O-]C(=O)C", "*CC", "[2H]C", "C[Hg]C[Se]C"]
EVERY = torch.arange(len(TEXTS))


@pytest.fixture(params=[True, False], ids=["graph", "vector"])
def graphs(request):
    molecules = [featurize(parse(text), vector=True, graph=request.param) for text in TEXTS]
    return pack_molecules(molecules, torch.zeros(len(TEXTS), 1))


def test_symbols_are_rdkits():
    table = rdkit().GetPeriodicTable()
    assert [table.GetElementSymbol(number) for number in range(1, 119)] == SYMBOLS[:-1]
    assert SYMBOLS[-1] == table.GetElementSymbol(0)


def test_the_elements_of_a_set_are_those_of_its_atoms(graphs):
    names = {SYMBOLS[number] for number in elements(graphs, EVERY).tolist()}
    assert names == {"H", "C", "O", "Cl", "Se", "Sn", "Ba", "Hg", "*"}
    assert elements(graphs, torch.tensor([0])).tolist() == [5, 7]


def test_unseen_elements_are_named_by_molecule(graphs):
    known = elements(graphs, torch.tensor([0]))
    assert unseen_elements(graphs, known) == ["", "Cl Sn", "Ba", "*", "", "Hg Se"]
    assert unseen_elements(graphs, elements(graphs, EVERY)) == [""] * len(TEXTS)
