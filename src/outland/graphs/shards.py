"""A set of graphs that arrives in pieces and may be larger than memory."""

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from outland.errors import Busy, CannotWrite
from outland.graphs.packed import PackedGraphs
from outland.storage.files import cache_folder, writable_folder
from outland.storage.locks import acquire, locked
from outland.storage.tensors import ChunkedTensor, write_tensors

_MAX_BYTES = 1 << 28
_PREFIX = ".shards-"


class Shards:
    """Collects pieces of a set; beyond `max_bytes` they are written to files in the cache folder."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes, self._pieces, self._bytes = max_bytes, list[PackedGraphs](), 0
        self._files: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces or self._files)

    def add(self, graphs: PackedGraphs) -> None:
        """Add a piece; all pieces have the same fields."""
        self._pieces.append(graphs)
        self._bytes += sum(tensor.nbytes for tensor in graphs.tensors().values())
        if self._bytes > self._max_bytes:
            self._spill()

    def concatenate(self) -> PackedGraphs:
        """The whole set, in order; if it is on disk, its tensors are maps of a file that is already unlinked."""
        if not self._files:
            return PackedGraphs.concatenate(self._pieces)
        if self._pieces:
            self._spill()
        assert self._folder is not None
        shards = [load_file(path) for path in self._files]
        path = self._write("whole", {name: _chunked(name, [shard[name] for shard in shards]) for name in shards[0]})
        graphs = PackedGraphs.from_tensors(load_file(path))
        self._lock.release()
        self._folder.cleanup()
        return graphs

    def _spill(self) -> None:
        if self._folder is None:
            parent = writable_folder(cache_folder())
            _remove_abandoned(parent)
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent, ignore_cleanup_errors=True)
            self._lock = acquire(Path(self._folder.name) / ".lock")
        self._files.append(self._write(str(len(self._files)), PackedGraphs.concatenate(self._pieces).tensors()))
        self._pieces, self._bytes = [], 0

    def _write(self, name: str, tensors: Mapping[str, Tensor | ChunkedTensor]) -> Path:
        assert self._folder is not None
        path = Path(self._folder.name) / f"{name}.safetensors"
        try:
            write_tensors(path, tensors)
        except OSError as problem:
            raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from None
        return path


def _remove_abandoned(parent: Path) -> None:
    """Remove shards whose process was killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(Busy, CannotWrite), locked(folder / ".lock", timeout=0):
            shutil.rmtree(folder, ignore_errors=True)


def _chunked(name: str, shards: list[Tensor]) -> ChunkedTensor:
    """One tensor of the whole set; `edge_index` is concatenated along its columns."""
    dtype = reduce(torch.promote_types, (shard.dtype for shard in shards))
    if name != "edge_index":
        return ChunkedTensor((sum(map(len, shards)), *shards[0].shape[1:]), dtype, shards)
    rows = (shard[row] for row in (0, 1) for shard in shards)
    return ChunkedTensor((2, sum(shard.shape[1] for shard in shards)), dtype, rows)
