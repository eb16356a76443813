"""The cache of prepared graphs on disk: entries by key, checksummed, written atomically."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from outland.errors import NotPermitted
from outland.graphs.packed import PackedGraphs
from outland.graphs.schema import Schema
from outland.graphs.splits import Splits
from outland.progress import say
from outland.storage.files import (
    cache_folders,
    canonical_json,
    digest,
    own_cache_folder,
    read_json,
    remove_scratch,
    writable_cache,
    writable_folder,
)
from outland.storage.locks import locked
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot

VERSION = 2  # of the layout on disk; a new one leaves old entries untouched and unused
MAX_BYTES = 1 << 40  # of an entry
Key = Mapping[str, Any]  # plain values that determine an entry, `name` among them


class Cache:
    """Folders of prepared `Splits`, one sub-folder each: all are read, the first that can be written to is written.

    Args:
        folder: by default those of `OUTLAND_CACHE`, else the user's cache folder.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folders = [Path(folder)] if folder else cache_folders()
        self._is_named = folder is not None
        self.loaded = dict[Path, None]()  # the entries that were loaded, in order

    @property
    def folder(self) -> Path:
        """The folder that is written to."""
        if self._is_named:
            return self.folders[0]
        folder = writable_cache(tuple(self.folders))
        if folder not in self.folders:
            self.folders.append(folder)
        return folder

    def path(self, key: Key) -> Path:
        """The folder of the entry: where it is, or else where it would be written."""
        name = entry_name(key)
        return next((folder / name for folder in self.folders if (folder / name).exists()), self.folder / name)

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the lock of this name; another process waits for it. Another user's lock means another folder."""
        file = f"{name}.lock"
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(writable_folder(self.folder) / file))
            except NotPermitted as problem:
                if self._is_named or self.folder == own_cache_folder():
                    raise
                say(f"{problem}; preparing in {own_cache_folder()} instead", "yellow")
                self.folders, self._is_named = [own_cache_folder(), *self.folders], True
                stack.enter_context(locked(writable_folder(self.folder) / file))
            yield

    def load(self, key: Key) -> Splits | None:
        """The entry; None if there is none; `DamagedSnapshot` if it has changed since it was written."""
        damage = None
        for folder in self.folders:
            path = folder / entry_name(key)
            try:
                entry = read_entry(path, read_snapshot(path, MAX_BYTES)) if path.exists() else None
            except DamagedSnapshot as problem:
                damage = damage or problem
                continue
            if entry is not None:
                self.loaded[path] = None
                return entry
        if damage is not None:
            raise damage
        return None

    def find(self, recipe: Key, field: str) -> Key | None:
        """The key of the entry that has this recipe and any `field`, the newest version of them; None without one."""
        keys = list[Key]()
        states = (state for folder in self.folders for state in folder.glob(f"{recipe['name']}-*/state.json"))
        for state in states:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                key = read_json(state)["values"]["recipe"]
                same = canonical_json(key) == canonical_json(
                    {**recipe, field: key[field]}
                )  # tuples are stored as lists
                if same and state.parent.name == entry_name(key):
                    keys.append(key)
        return max(keys, key=lambda key: [int(number) for number in re.findall(r"\d+", key[field])], default=None)

    def store(self, key: Key, splits: Splits) -> None:
        """Write an entry, replacing an older one; no other process may be writing it."""
        remove_scratch(self.folder, entry_name(key))
        tensors = {f"graphs.{name}": value for name, value in splits.graphs.tensors().items()}
        tensors |= {f"parts.{name}": index for name, index in splits.parts.items()}
        values = {
            "recipe": dict(key),
            "source": {"versions": installed_versions(), **splits.source},
            "schema": splits.schema.to_json(),
            "parts": list(splits.parts),
        }
        write_snapshot(self.folder / entry_name(key), Snapshot(tensors, values))

    def load_or_build(self, key: Key, build: Callable[[], Splits], lock_name: str | None = None) -> Splits:
        """Load the entry, or build and store it, in one process only.

        `build` may store other entries that the same work makes; `lock_name` is common to all of them.
        """
        with contextlib.suppress(DamagedSnapshot):
            if (entry := self.load(key)) is not None:
                return entry
        with self.lock(lock_name or entry_name(key)):
            if (entry := self.load_intact(key)) is not None:
                return entry
            self.store(key, build())
            entry = self.load(key)
        assert entry is not None
        return entry

    def load_intact(self, key: Key) -> Splits | None:
        """The entry; None if there is none, or, with a note, if it is damaged."""
        try:
            return self.load(key)
        except DamagedSnapshot as problem:
            say(f"The cache entry {problem}; preparing it again", "yellow")
            return None


def entry_name(key: Key) -> str:
    """The name of an entry's folder."""
    return f"{key['name']}-{digest(canonical_json({'version': VERSION, 'recipe': dict(key)}))[:16]}"


def read_entry(path: Path, snapshot: Snapshot) -> Splits:
    """The splits of an entry's snapshot; `DamagedSnapshot`, which names `path`, where they do not fit together."""
    parts = snapshot.group("parts")
    try:
        return Splits(
            graphs=PackedGraphs.from_tensors(snapshot.group("graphs")),
            parts={name: parts[name] for name in snapshot.values["parts"]},
            schema=Schema.from_json(snapshot.values["schema"]),
            source=dict(snapshot.values["source"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise DamagedSnapshot(f"{path} does not fit together: {problem}") from None


def installed_versions() -> dict[str, str]:
    """Versions of what prepares graphs, as far as it is installed; an entry's source keeps them."""
    versions = dict[str, str]()
    for package in ("outland", "numpy", "rdkit", "scikit-image"):
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
