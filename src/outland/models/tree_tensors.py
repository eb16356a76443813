"""Decision trees as flat tensors, evaluated for many rows at once."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MAX_DEPTH = 64
_BLOCK = 512  # rows evaluated at once, eight words of bits
_Ints = npt.NDArray[np.intp]
_DTYPES = {
    "feature": torch.int16,
    "threshold": torch.float32,
    "child": torch.int32,
    "value": torch.float32,
    "root": torch.int32,
}


@dataclass(frozen=True)
class TreeTensors:
    """Trees one after another, the nodes of each breadth first.

    A row goes to node `child` where `x[feature] <= threshold`, and to the node after that one where not.

    Args:
        feature, threshold: of each node's question `[N]`; 0 at leaves.
        child: node of the left child `[N]`; the node itself at a leaf.
        value: of each leaf `[N, V]`; 0 at other nodes.
        root: first node of each tree `[T]`.
    """

    feature: Tensor
    threshold: Tensor
    child: Tensor
    value: Tensor
    root: Tensor

    @classmethod
    def from_sklearn(cls, tree: Any, value: npt.NDArray[np.float64]) -> "TreeTensors":
        """A fitted tree of scikit-learn (its `tree_`) with these values of its nodes `[N, V]`."""
        left, right, order, child, level, count = tree.children_left, tree.children_right, [], [], np.array([0]), 0
        while len(level):
            inner = left[level] >= 0
            own = count + np.arange(len(level))
            count += len(level)
            child.append(np.where(inner, count + 2 * (np.cumsum(inner) - 1), own))
            order.append(level)
            level = np.stack([left[level[inner]], right[level[inner]]], 1).ravel()
        nodes = np.concatenate(order)
        inner = left[nodes] >= 0
        threshold = tree.threshold[nodes].astype(np.float32)  # scikit-learn compares single with double precision
        threshold = np.where(threshold > tree.threshold[nodes], np.nextafter(threshold, np.float32(-np.inf)), threshold)
        return cls(
            torch.from_numpy(np.where(inner, tree.feature[nodes], 0).astype(np.int16)),
            torch.from_numpy(np.where(inner, threshold, 0).astype(np.float32)),
            torch.from_numpy(np.concatenate(child).astype(np.int32)),
            torch.from_numpy(np.where(inner[:, None], 0, value[nodes]).astype(np.float32)),
            torch.zeros(1, dtype=torch.int32),
        )

    @classmethod
    def constant(cls, value: npt.NDArray[np.float64]) -> "TreeTensors":
        """One tree that is a leaf of this value `[V]`."""
        zero = torch.zeros(1, dtype=torch.int32)
        return cls(zero.short(), zero.float(), zero, torch.from_numpy(value[None].astype(np.float32)), zero)

    @classmethod
    def concatenate(cls, sets: list["TreeTensors"]) -> "TreeTensors":
        """Several sets of trees as one."""
        starts = np.cumsum([0, *(len(trees.child) for trees in sets)]).tolist()[:-1]
        shifted = {
            name: [(getattr(trees, name) + start).int() for trees, start in zip(sets, starts, strict=True)]
            for name in ("child", "root")
        }
        same = {name: [getattr(trees, name) for trees in sets] for name in ("feature", "threshold", "value")}
        return cls(**{name: torch.cat(parts) for name, parts in (same | shifted).items()})

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name: what is saved."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def check(self, inputs: int) -> None:
        """A `ValueError` unless these are trees over `inputs` features, each node reached once, depth bounded."""
        for name, tensor in self.tensors().items():
            if tensor.dtype != _DTYPES[name] or tensor.ndim != (2 if name == "value" else 1) or not tensor.numel():
                raise ValueError(f"the {name}s of its trees are not of the right kind")
        nodes, child, root = len(self.child), self.child.long(), self.root.long()
        if not nodes == len(self.feature) == len(self.threshold) == len(self.value):
            raise ValueError("its trees have nodes without a question, a child or a value")
        if not (bool(self.threshold.isfinite().all()) and bool(self.value.isfinite().all())):
            raise ValueError("a threshold or a value of its trees is not finite")
        if not 0 <= int(self.feature.min()) <= int(self.feature.max()) < inputs:
            raise ValueError("a question of its trees is about a feature that there is not")
        own = torch.arange(nodes)
        inner = child != own
        if bool((child[inner] <= own[inner]).any()) or bool((child[inner] + 1 >= nodes).any()):
            raise ValueError("its trees have a node whose child is not after it")
        if not (bool((root >= 0).all()) and bool((root < nodes).all())):
            raise ValueError("its trees have a root that is no node")
        parents = torch.bincount(torch.cat([child[inner], child[inner] + 1, root]), minlength=nodes)
        if bool((parents != 1).any()) or bool((root[1:] <= root[:-1]).any()):
            raise ValueError("its trees have a node that is reached in two ways, or in none")
        if len(self._plan.levels) > MAX_DEPTH:
            raise ValueError(f"its trees are deeper than {MAX_DEPTH} levels")

    def leaf_values(self, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """The value of the leaf that each row of `x` `[F, B]`, B at most 512, reaches in each tree `[T, B, V]`."""
        plan, rows = self._plan, x.shape[1]
        padded = np.zeros((x.shape[0], _BLOCK), dtype=np.float32)
        padded[:, :rows] = x
        index = plan.leaf_index(padded)[:, :rows]
        values: npt.NDArray[np.float32] = plan.values[index]
        return values

    @cached_property
    def _plan(self) -> "_Plan":
        return _Plan(self)


def row_blocks(rows: int) -> list[slice]:
    """Rows cut into blocks that `leaf_values` takes."""
    return [slice(start, min(start + _BLOCK, rows)) for start in range(0, rows, _BLOCK)]


class _Plan:
    r"""How trees are evaluated: a bit for each row instead of a walk for each row.

    Every distinct question is asked of all rows at once and its answers are packed, 64 rows a word. Level by level, the
    rows that reach a node are :math:`r_\mathrm{right} = r \wedge q` and :math:`r_\mathrm{left} = r \wedge \neg q`. Bit
    k of the number of the leaf that a row reaches is the union of the rows of all leaves whose number has bit k.
    """

    def __init__(self, trees: TreeTensors) -> None:
        child, root = trees.child.numpy().astype(np.intp), trees.root.numpy().astype(np.intp)
        own = np.arange(len(child))
        inner = np.flatnonzero(child != own)
        questions = np.empty(len(inner), dtype=[("feature", np.intp), ("threshold", np.float32)])
        questions["feature"], questions["threshold"] = trees.feature.numpy()[inner], trees.threshold.numpy()[inner]
        distinct, codes = np.unique(questions, return_inverse=True)
        question: _Ints = np.zeros(len(child), dtype=np.intp)
        question[inner] = codes
        self.nodes, self.root, self.threshold = len(child), root, distinct["threshold"][:, None]
        features, starts = np.unique(distinct["feature"], return_index=True)
        ends = [*starts, len(distinct)][1:]  # none where no tree asks anything
        self.asked = list(zip(features, starts, ends, strict=True))
        self.levels: list[tuple[_Ints, _Ints, _Ints]] = []
        level = root
        while len(level := level[child[level] != level]) and len(self.levels) <= MAX_DEPTH:
            self.levels.append((level, child[level], question[level]))
            level = np.concatenate([child[level], child[level] + 1])
        self._number_leaves(np.flatnonzero(child == own), trees.value.numpy())

    def _number_leaves(self, leaves: _Ints, value: npt.NDArray[np.float32]) -> None:
        tree = np.searchsorted(self.root, leaves, side="right") - 1
        self.first, self.values = np.searchsorted(leaves, self.root), value[leaves]
        number = np.arange(len(leaves)) - self.first[tree]
        self.bits = max(1, int(number.max()).bit_length())
        has_bit = (number[:, None] >> np.arange(self.bits)) & 1 == 1
        leaf, bit = np.nonzero(has_bit)
        cell = tree[leaf] * self.bits + bit
        order = np.argsort(cell, kind="stable")
        self.united = leaves[leaf[order]]
        self.cells, self.starts = np.unique(cell[order], return_index=True)

    def leaf_index(self, x: npt.NDArray[np.float32]) -> _Ints:
        """Row in `values` of the leaf that each row of `x` `[F, 512]` reaches in each tree `[T, 512]`."""
        words = _BLOCK // 64
        answers = np.empty((len(self.threshold), words), dtype=np.uint64)
        for feature, start, end in self.asked:
            answers[start:end] = np.packbits(x[feature] > self.threshold[start:end], axis=1).view(np.uint64)
        reached = np.empty((self.nodes, words), dtype=np.uint64)
        reached[self.root] = ~np.uint64(0)
        for level, child, question in self.levels:
            rows = reached[level]
            right = rows & answers[question]
            reached[child + 1] = right
            reached[child] = rows ^ right
        packed = np.zeros((len(self.root) * self.bits, words), dtype=np.uint64)
        if len(self.starts):
            packed[self.cells] = np.bitwise_or.reduceat(reached[self.united], self.starts, axis=0)
        digits = np.unpackbits(packed.view(np.uint8), axis=1).reshape(len(self.root), self.bits, _BLOCK)
        index = np.repeat(self.first[:, None], _BLOCK, axis=1)
        for bit in range(self.bits):
            index += digits[:, bit].astype(np.intp) << bit
        return index
