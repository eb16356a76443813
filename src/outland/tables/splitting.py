"""Splits of rows into train, val and test, and of training rows into environments, from one value a row."""

import random
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import PARTS

Parts = dict[str, Tensor]
Fractions = tuple[float, float, float]
FRACTIONS: Fractions = (0.8, 0.1, 0.1)
MAX_ENVIRONMENTS = 10
MOLECULE_GROUPS = ("scaffold", "cluster")
_SYNONYMS = {"training": "train", "valid": "val", "validation": "val", "dev": "val", "testing": "test"}


def split_rows(domain: str, columns: Mapping[str, Tensor], seed: int = 0, fractions: Fractions = FRACTIONS) -> Parts:
    """Indices of the rows of `train`, `val` and `test` under a shift of `domain`.

    `scaffold`, `cluster`, `environment`: large groups train, rare ones test. `size`: large graphs train, the smallest
    test. `time`: the earliest train, the latest test. `random`: no shift; rows of a molecule stay together.
    `columns` has one value a row: `size`, `time`, or group codes under the domain's name; for `random` `molecule`.
    """
    match domain:
        case "size":
            return split_by_key(columns["size"], fractions, descending=True)
        case "time":
            return split_by_key(columns["time"], fractions)
        case "random":
            molecules, codes = columns["molecule"].unique(return_inverse=True)
            order = torch.randperm(len(molecules), generator=torch.Generator().manual_seed(seed))
            return split_by_key(order[codes], fractions)
        case _:
            return split_by_group(columns[domain], fractions)


def split_by_group(groups: Tensor, fractions: Fractions = FRACTIONS) -> Parts:
    """OGB's scaffold split: whole groups, by (size, first row) descending.

    A group goes to train if train then has at most 80 % of the rows, else to val if train and val then have at most
    90 %, else to test; or what `fractions` say.
    """
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        members.setdefault(group, []).append(row)
    max_train, max_val = fractions[0] * len(groups), (fractions[0] + fractions[1]) * len(groups)
    parts: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for rows in sorted(members.values(), key=lambda rows: (len(rows), rows[0]), reverse=True):
        if len(parts["train"]) + len(rows) <= max_train:
            parts["train"] += rows
        elif len(parts["train"]) + len(parts["val"]) + len(rows) <= max_val:
            parts["val"] += rows
        else:
            parts["test"] += rows
    return {name: torch.tensor(sorted(rows), dtype=torch.long) for name, rows in parts.items()}


def split_by_key(keys: Tensor, fractions: Fractions = FRACTIONS, descending: bool = False) -> Parts:
    """Rows in order of their keys; a cut between equal keys moves on to where the key changes."""
    order = keys.argsort(descending=descending, stable=True)
    ordered = keys[order].tolist()
    cuts = [int(fractions[0] * len(order)), int((fractions[0] + fractions[1]) * len(order))]
    for index, cut in enumerate(cuts):
        while 0 < cut < len(ordered) and ordered[cut] == ordered[cut - 1]:
            cut += 1
        cuts[index] = cut
    return split_at(order, *cuts)


def split_at(order: Tensor, first: int, second: int) -> Parts:
    """The rows of an order before the first cut, between the two, and after the second."""
    return {"train": order[:first], "val": order[first:second], "test": order[second:]}


def split_both_sides(inside: Tensor, outside: Tensor, held_out: int) -> Parts:
    """GOOD's parts of a shift: `id_val` and `id_test` hold out rows inside it, `val` and `test` halve those outside."""
    inner = split_at(inside, len(inside) - 2 * held_out, len(inside) - held_out)
    val, test = outside.chunk(2)
    return {"train": inner["train"], "id_val": inner["val"], "id_test": inner["test"], "val": val, "test": test}


def permutation(rng: random.Random, count: int) -> Tensor:
    """A permutation as Python's generator shuffles: published splits were drawn so."""
    order = list(range(count))
    rng.shuffle(order)
    return torch.tensor(order)


def split_by_name(names: Sequence[str], column: str) -> Parts:
    """The parts as the user's own column names them."""
    rows: dict[str, list[int]] = {part: [] for part in PARTS}
    words = [name.strip().lower() for name in names]
    for row, word in enumerate(words):
        rows.setdefault(_SYNONYMS.get(word, word), []).append(row)
    unknown = sorted({names[row] for part in rows.keys() - {*PARTS} for row in rows[part]})
    if unknown:
        raise OutlandError(
            f"the column '{column}' says {', '.join(map(repr, unknown[:5]))}; "
            f"a split is one of {', '.join([*PARTS, *_SYNONYMS])}"
        )
    return {part: torch.tensor(indices) for part, indices in rows.items() if indices}


def assign_environments(
    domain: str, columns: Mapping[str, Tensor], train: Tensor, named: Tensor | None = None
) -> tuple[Tensor, int]:
    """Environment of each row `[G]`, those of the training rows numbered from 0, and how many of these there are.

    Without environments that the user `named`, training rows are divided by scaffold or cluster under those domains,
    else by size.
    """
    if named is not None:
        environment = training_first(named, train)
    elif domain in MOLECULE_GROUPS:
        environment = _group_environments(columns[domain], train)
    else:
        environment = _size_environments(columns["size"], train)
    return environment, len(environment[train].unique())


def training_first(codes: Tensor, train: Tensor) -> Tensor:
    """The same codes renumbered from 0: those of training rows in order, then the others in order."""
    known, every = codes[train].unique(), codes.unique()
    order = torch.cat([known, every[~torch.isin(every, known)]])
    number = torch.empty(int(order.max()) + 1, dtype=torch.long)
    number[order] = torch.arange(len(order))
    return number[codes]


def _group_environments(groups: Tensor, train: Tensor) -> Tensor:
    """Up to ten environments of about equal size, each of whole groups by size; 0 outside the training rows."""
    names, counts = groups[train].unique(return_counts=True)
    order = counts.argsort(descending=True, stable=True)
    before = counts[order].cumsum(0) - counts[order]
    bins = torch.empty_like(names)
    bins[order] = (before * MAX_ENVIRONMENTS // max(1, len(train))).clamp(max=MAX_ENVIRONMENTS - 1)
    return _scattered(bins[torch.searchsorted(names, groups[train])], train, len(groups))


def _size_environments(sizes: Tensor, train: Tensor) -> Tensor:
    """Up to ten environments by size, equal sizes together; 0 outside the training rows."""
    rank = torch.searchsorted(sizes[train].sort().values, sizes[train])
    return _scattered(rank * MAX_ENVIRONMENTS // max(1, len(train)), train, len(sizes))


def _scattered(bins: Tensor, train: Tensor, rows: int) -> Tensor:
    environment = torch.zeros(rows, dtype=torch.long)
    environment[train] = bins.unique(return_inverse=True)[1]
    return environment
