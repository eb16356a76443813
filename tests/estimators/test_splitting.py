"""Validation rows held out under a shift."""

import pytest
import torch

from outland.estimators.inputs import BadInput, read_inputs
from outland.estimators.splitting import resolve_domain, split_validation, training_environments
from tests.models.cases import bbbp


def test_validation_holds_out_whole_scaffolds():
    inputs = read_inputs(bbbp()[0], scaffold=True)
    parts = split_validation(inputs, "scaffold", 0.2, None, 0)
    scaffold = inputs.groups["scaffold"]
    assert not set(scaffold[parts["train"]].tolist()) & set(scaffold[parts["val"]].tolist())
    assert 0.15 < len(parts["val"]) / len(scaffold) < 0.25
    assert sorted(torch.cat(list(parts.values())).tolist()) == list(range(len(scaffold)))
    by_size = split_validation(inputs, "size", 0.2, None, 0)
    sizes = inputs.graphs.node_counts
    assert int(sizes[by_size["val"]].max()) <= int(sizes[by_size["train"]].min())


def test_environments_are_taken_made_or_held_out():
    smiles, _ = bbbp()
    inputs = read_inputs(smiles, scaffold=True)
    parts = split_validation(inputs, "scaffold", 0.2, None, 0)
    made, count = training_environments(inputs, "scaffold", parts["train"], None)
    assert count == 10
    assert sorted(made[parts["train"]].unique().tolist()) == list(range(10))
    names = [f"lab {row % 4}" for row in range(len(smiles))]
    parts = split_validation(inputs, "environment", 0.24, names, 0)
    environment, count = training_environments(inputs, "environment", parts["train"], names)
    assert count == 3
    assert set(environment[parts["val"]].tolist()) == {3}


def test_auto_is_scaffold_for_molecules_and_size_for_graphs():
    assert (resolve_domain("auto", "molecules"), resolve_domain("auto", "graphs")) == ("scaffold", "size")
    assert resolve_domain("random", "graphs") == "random"
    for domain in ("scaffold", "cluster"):
        with pytest.raises(BadInput, match=f"only molecules have a {domain}: take domain='size'"):
            resolve_domain(domain, "graphs")
