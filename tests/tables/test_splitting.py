import torch

from outland.tables.splitting import split_by_group


def test_group_rule_by_hand():
    """Ten rows: groups of 5, 3, 1, 1; 8 fit in train, 1 more in val; of equal groups the later row comes first."""
    groups = torch.tensor([7, 7, 3, 3, 3, 7, 7, 7, 1, 2])
    parts = split_by_group(groups)
    assert {name: index.tolist() for name, index in parts.items()} == {
        "train": [0, 1, 2, 3, 4, 5, 6, 7],
        "val": [9],
        "test": [8],
    }
