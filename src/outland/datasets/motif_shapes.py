"""The shapes Motif is built of: five base graphs, three motifs, and the edges that join them."""

from dataclasses import dataclass
from functools import cache
from math import log2

import numpy as np
import numpy.typing as npt

BASES = ("wheel", "tree", "ladder", "star", "path")
MOTIF_SIZE = 5

_MOTIF_EDGES = (
    ((0, 1), (0, 4), (1, 2), (1, 4), (2, 3), (3, 4)),  # house: apex 0 on the square 1-2-3-4
    ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)),  # cycle
    ((0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)),  # crane: K(2,3) with parts {1, 3} and {0, 2, 4}
)

Pair = tuple[int, int]


@dataclass(frozen=True)
class Template:
    """A base graph with its motif beside it, not yet joined: edges `(u, v)` with `u < v`."""

    base_size: int
    size: int
    edges: frozenset[Pair]
    array: npt.NDArray[np.int32]
    free: tuple[bool, ...]  # nodes with role 0: a noise edge needs one at an end


@cache
def template(base: int, width: int, motif: int) -> Template:
    """The template of a base, its width, and a motif; motif node k is node `base_size + k`."""
    base_size, edges, free = _base(BASES[base], width)
    edges += [(base_size + u, base_size + v) for u, v in _MOTIF_EDGES[motif]]
    array = np.array(sorted(edges), dtype=np.int32).reshape(-1, 2)
    return Template(base_size, base_size + MOTIF_SIZE, frozenset(edges), array, tuple(free) + (False,) * MOTIF_SIZE)


def _base(name: str, width: int) -> tuple[int, list[Pair], list[bool]]:
    """Number of nodes, edges, and which nodes have role 0."""
    path = [(i, i + 1) for i in range(width - 1)]
    if name == "wheel":
        ring = [(i, i + 1) for i in range(1, width - 1)] + ([(1, width - 1)] if width > 3 else [])
        return width, [(0, i) for i in range(1, width)] + ring, [True] * width
    if name == "tree":
        size = 2 ** (max(1, int(log2(width)) - 1) + 1) - 1
        return size, [((i - 1) // 2, i) for i in range(1, size)], [True] * size
    if name == "ladder":
        rails = path + [(width + u, width + v) for u, v in path]
        return 2 * width, rails + [(i, width + i) for i in range(width)], [True] * (2 * width)
    if name == "star":
        return width + 1, [(0, i) for i in range(1, width + 1)], [True] + [False] * width
    return width, path, [0 < i < width - 1 for i in range(width)]
