"""Entries of the cache as small folders that another machine imports, without raw files or the tools that read them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outland.errors import OutlandError
from outland.graphs.cache import VERSION, Cache, Key, read_entry
from outland.graphs.edges import reverse_edges_in_blocks
from outland.graphs.splits import Splits
from outland.settings import is_valid
from outland.storage.compression import compress, decompress
from outland.storage.snapshots import SNAPSHOT_FILES, DamagedSnapshot, Snapshot, read_snapshot, write_snapshot
from outland.storage.tensors import DTYPES

_REVERSE = "graphs.reverse"
_LONGEST_NAME, _LONGEST_VERSIONS = 200, 1000


@dataclass(frozen=True)
class PortableEntry:
    """A prepared folder: where it is, the key of its entry, how many graphs it holds, and what made them."""

    folder: Path
    key: Key
    graphs: int
    versions: Mapping[str, str]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum((self.folder / name).stat().st_size for name in SNAPSHOT_FILES)

    def __str__(self) -> str:
        made_by = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"{self.folder.name}: {self.graphs:,} graphs, {self.size / 2**20:.2f} MiB ({made_by or 'versions unknown'})"
        )


def export_entry(path: Path, out: Path) -> PortableEntry:
    """Write the entry of a cache at `path` as a folder of the same name in `out`.

    Tensors are compressed. `reverse`, most of the bytes that remain, is left out where it follows from the edges.
    """
    snapshot = read_snapshot(path)
    splits, tensors = read_entry(path, snapshot), dict(snapshot.tensors)
    has_reverse = not torch.equal(_reverse(tensors), tensors[_REVERSE].int())
    reverse_dtype = DTYPES[tensors[_REVERSE].dtype]
    if not has_reverse:
        del tensors[_REVERSE]
    streams, layout = compress(tensors)
    values = {
        "cache": VERSION,
        "entry": snapshot.values,
        "layout": layout,
        "reverse": reverse_dtype,
        "checksum": splits.checksum(),
    }
    write_snapshot(out / path.name, Snapshot(streams, values))
    return _describe(out / path.name, snapshot.values["recipe"], splits)


def import_entry(cache: Cache, folder: Path) -> tuple[PortableEntry, bool]:
    """Put a prepared folder into the cache, and say whether it was put: an intact entry that is there stays.

    `DamagedSnapshot` if the folder has changed since it was written, or its graphs are not those that were prepared.
    """
    snapshot = read_snapshot(folder)
    if "entry" not in snapshot.values:
        raise OutlandError(f"{folder} is no folder of `outland data prepare --out`")
    if snapshot.values.get("cache") != VERSION:
        raise OutlandError(f"{folder} was prepared by a version of outland with another cache: prepare it again")
    try:
        key: dict[str, Any] = snapshot.values["entry"]["recipe"]
        _check_name(key["name"])
        splits = read_entry(folder, Snapshot(_restore(snapshot), snapshot.values["entry"]))
        if splits.checksum() != snapshot.values["checksum"]:
            raise ValueError("its graphs are not those that were prepared")
        for versions in (splits.source.get("versions", {}), {"rdkit": key.get("rdkit", "")}):
            _check_versions(versions)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as problem:
        raise DamagedSnapshot(f"{folder} cannot be read: {problem}") from None
    with cache.lock(cache.path(key).name):
        is_new = cache.load_intact(key) is None
        if is_new:
            splits.graphs.check_edges()
            cache.store(key, splits)
    return _describe(folder, key, splits), is_new


def portable_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a prepared one, else the prepared ones in it; an `OutlandError` if there are none."""
    state = SNAPSHOT_FILES[1]
    folders = [folder] if (folder / state).exists() else sorted(path.parent for path in folder.glob(f"*/{state}"))
    if not folders:
        raise OutlandError(f"there is no prepared data in {folder}: make it with `outland data prepare DATASET --out`")
    return folders


def _check_name(name: str) -> None:
    """A `ValueError` where a name cannot be that of a folder, with the letters that the cache adds to it."""
    if Path(name).name != name or not name.isprintable() or not 0 < len(name.encode()) <= _LONGEST_NAME:
        raise ValueError(f"{name[:60]!r} is no name of an entry")


def _check_versions(versions: Any) -> None:
    """A `ValueError` where versions, which are printed, are not short words."""
    text = "".join([*versions, *versions.values()]) if is_valid(versions, dict[str, str]) else None
    if text is None or not text.isprintable() or len(text) > _LONGEST_VERSIONS:
        raise ValueError("its versions are not short words by the names of packages")


def _restore(snapshot: Snapshot) -> dict[str, Tensor]:
    tensors = decompress(snapshot.tensors, snapshot.values["layout"])
    if _REVERSE not in tensors:
        dtypes = {name: dtype for dtype, name in DTYPES.items()}
        tensors[_REVERSE] = _reverse(tensors).to(dtypes[snapshot.values["reverse"]])
    return tensors


def _reverse(tensors: Mapping[str, Tensor]) -> Tensor:
    return reverse_edges_in_blocks(
        *(tensors[f"graphs.{name}"] for name in ("edge_index", "node_counts", "edge_counts"))
    )


def _describe(folder: Path, key: Key, splits: Splits) -> PortableEntry:
    return PortableEntry(folder, key, len(splits.graphs), splits.source.get("versions", {}))
