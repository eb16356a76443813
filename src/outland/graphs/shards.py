"""A set of graphs that arrives piece by piece, and may be larger than memory."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from safetensors.torch import load_file
from torch import Tensor

from outland.errors import CannotWrite
from outland.graphs.packed import PackedGraphs
from outland.storage.files import cache_folder, writable_folder
from outland.storage.tensors import Pieces, write_tensors

_MOST = 1 << 28  # bytes that are kept in memory
_PREFIX = ".shards-"


class Shards:
    """Gathers pieces of a set; too many for memory, they go to disk (into the cache folder) and are read from there.

    Args:
        most: bytes that are kept in memory.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most, self._pieces, self._bytes = most, list[PackedGraphs](), 0
        self._files: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces or self._files)

    def add(self, graphs: PackedGraphs) -> None:
        """Add a piece; all pieces have the same fields."""
        self._pieces.append(graphs)
        self._bytes += sum(tensor.nbytes for tensor in graphs.tensors().values())
        if self._bytes > self._most:
            self._spill()

    def joined(self) -> PackedGraphs:
        """The whole set, in order; of a set on disk, tensors that are maps of a file which is gone when they are."""
        if not self._files:
            return PackedGraphs.concatenate(self._pieces)
        if self._pieces:
            self._spill()
        assert self._folder is not None
        shards = [load_file(path) for path in self._files]
        whole = self._write("whole", {name: _column(name, [shard[name] for shard in shards]) for name in shards[0]})
        graphs = PackedGraphs.from_tensors(load_file(whole))
        self._held.release()
        self._folder.cleanup()
        return graphs

    def _spill(self) -> None:
        if self._folder is None:
            place = writable_folder(cache_folder())
            _sweep(place)
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True)
            self._held = FileLock(Path(self._folder.name) / ".lock")
            self._held.acquire()
        self._files.append(self._write(str(len(self._files)), PackedGraphs.concatenate(self._pieces).tensors()))
        self._pieces, self._bytes = [], 0

    def _write(self, name: str, named: Mapping[str, Tensor | Pieces]) -> Path:
        assert self._folder is not None
        path = Path(self._folder.name) / f"{name}.safetensors"
        try:
            write_tensors(path, named)
        except OSError as problem:
            raise CannotWrite(f"cannot write {path}: {problem.strerror or problem}") from None
        return path


def _sweep(folder: Path) -> None:
    """Remove shards whose process was killed."""
    for left in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(Timeout), FileLock(left / ".lock", timeout=0):
            shutil.rmtree(left, ignore_errors=True)


def _column(name: str, shards: list[Tensor]) -> Pieces:
    """A tensor of the whole set; of sources and targets of edges, first all sources."""
    dtype = reduce(torch.promote_types, (shard.dtype for shard in shards))
    if name != "edge_index":
        return Pieces((sum(map(len, shards)), *shards[0].shape[1:]), dtype, shards)
    return Pieces((2, sum(shard.shape[1] for shard in shards)), dtype, _rows(shards))


def _rows(shards: list[Tensor]) -> Iterator[Tensor]:
    for row in (0, 1):
        for shard in shards:
            yield shard[row]
