"""Ways to cut a set of molecules in train, val and test, and its training part in environments."""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs import PARTS

Parts = dict[str, Tensor]
Fractions = tuple[float, float, float]
FRACTIONS: Fractions = (0.8, 0.1, 0.1)
ENVIRONMENTS = 10


def by_group(groups: Tensor, fractions: Fractions = FRACTIONS) -> Parts:
    """Whole groups (scaffolds, clusters) stay together; large ones train, rare ones test: OGB's scaffold rule.

    Groups are taken by (size, first row), descending. A group goes to train if it still fits in 80 %, else to val if
    train and val then fit in 90 %, else to test; or what `fractions` say.
    """
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        members.setdefault(group, []).append(row)
    ordered = sorted(members.values(), key=lambda rows: (len(rows), rows[0]), reverse=True)
    most_train, most_val = fractions[0] * len(groups), (fractions[0] + fractions[1]) * len(groups)
    train: list[int] = []
    val: list[int] = []
    test: list[int] = []
    for rows in ordered:
        if len(train) + len(rows) <= most_train:
            train += rows
        elif len(train) + len(val) + len(rows) <= most_val:
            val += rows
        else:
            test += rows
    named = (("train", train), ("val", val), ("test", test))
    return {name: torch.tensor(sorted(rows), dtype=torch.long) for name, rows in named}


def in_order(order: Tensor, keys: Tensor | None = None, fractions: Fractions = FRACTIONS) -> Parts:
    """The first 80 % of an order train, the next tenth validates, the last tests.

    With `keys`, graphs of equal key stay together: a cut moves on to where the key changes.
    """
    cuts = [int(fractions[0] * len(order)), int((fractions[0] + fractions[1]) * len(order))]
    if keys is not None:
        ranked = keys[order].tolist()
        for place, cut in enumerate(cuts):
            while 0 < cut < len(ranked) and ranked[cut] == ranked[cut - 1]:
                cut += 1
            cuts[place] = cut
    first, second = cuts
    return {"train": order[:first], "val": order[first:second], "test": order[second:]}


def by_size(sizes: Tensor, fractions: Fractions = FRACTIONS) -> Parts:
    """Large graphs train, small ones validate, the smallest test."""
    return in_order(sizes.argsort(descending=True, stable=True), sizes, fractions)


def by_time(times: Tensor) -> Parts:
    """The earliest train, the latest test."""
    return in_order(times.argsort(stable=True), times)


def at_random(groups: Tensor, seed: int, fractions: Fractions = FRACTIONS) -> Parts:
    """No shift: a seeded draw, in which rows of one group (one molecule) stay together."""
    names, place = groups.unique(return_inverse=True)
    key = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed))[place]
    return in_order(key.argsort(stable=True), key, fractions)


def smallest_halved(sizes: Tensor, seed: int) -> Parts:
    """AIA's size split of Molbbbp: the smallest fifth is shuffled and halved in val and test, the rest trains.

    So val and test follow one law, and which is which depends on the seed.
    """
    tenth = int(0.1 * len(sizes))
    order = sizes.argsort(stable=True).tolist()
    small, large = order[: 2 * tenth], order[2 * tenth :]
    random.Random(seed).shuffle(small)
    return {"train": torch.tensor(large), "val": torch.tensor(small[:tenth]), "test": torch.tensor(small[tenth:])}


_WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "id_val": "id_val",
    "id_test": "id_test",
}


def by_words(words: Sequence[str], column: str) -> Parts:
    """As the user's own column says."""
    unknown = sorted({word for word in words if word.strip().lower() not in _WORDS})
    if unknown:
        raise OutlandError(
            f"the column '{column}' says {', '.join(repr(word) for word in unknown[:5])}; "
            f"a split is one of {', '.join(dict.fromkeys(_WORDS))}"
        )
    names = [_WORDS[word.strip().lower()] for word in words]
    return {
        part: torch.tensor([row for row, name in enumerate(names) if name == part], dtype=torch.long)
        for part in PARTS
        if part in names
    }


def grouped_environments(groups: Tensor, train: Tensor) -> Tensor:
    """Up to ten environments of about equal size, each of whole groups, for every row; 0 outside the training part.

    Groups follow one another by size, then first appearance, so large scaffolds and rare ones part company.
    """
    names, counts = groups[train].unique(return_counts=True)
    order = counts.argsort(descending=True, stable=True)
    before = counts[order].cumsum(0) - counts[order]
    bins = torch.empty_like(names)
    bins[order] = (before * ENVIRONMENTS // max(1, len(train))).clamp(max=ENVIRONMENTS - 1)
    environment = torch.zeros(len(groups), dtype=torch.long)
    environment[train] = bins[torch.searchsorted(names, groups[train])].unique(return_inverse=True)[1]
    return environment


def size_environments(sizes: Tensor, train: Tensor) -> Tensor:
    """Ten environments by size, equal sizes together, for every row; 0 outside the training part."""
    ranked = sizes[train].sort().values
    rank = torch.searchsorted(ranked, sizes[train])
    environment = torch.zeros(len(sizes), dtype=torch.long)
    environment[train] = (rank * ENVIRONMENTS // max(1, len(train))).unique(return_inverse=True)[1]
    return environment
