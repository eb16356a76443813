"""Prepared graphs on disk: keyed by recipe, checksummed, written whole or not at all."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from outland.graphs.packed import PackedGraphs
from outland.graphs.schema import Schema
from outland.graphs.splits import Splits
from outland.progress import say
from outland.storage.files import cache_folder, canonical_json, digest, sweep, writable_folder
from outland.storage.snapshots import DamagedSnapshot, Snapshot, read_snapshot, write_snapshot

VERSION = 2  # of the layout on disk; a new one leaves old entries untouched and unused


class Cache:
    """A folder of prepared `Splits`, one sub-folder each.

    Args:
        folder: where; by default `OUTLAND_CACHE`, else the user's cache folder.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self.folder = Path(folder) if folder else cache_folder()

    def path(self, recipe: Mapping[str, Any]) -> Path:
        """The folder of the entry made by `recipe`."""
        key = digest(canonical_json({"version": VERSION, "recipe": dict(recipe)}))[:16]
        return self.folder / f"{recipe['name']}-{key}"

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold the right to build; a second process waits, then finds what it wants built."""
        writable_folder(self.folder)
        with FileLock(self.folder / f"{name}.lock"):
            yield

    def load(self, recipe: Mapping[str, Any]) -> Splits | None:
        """The entry made by `recipe`; None if there is none; `DamagedSnapshot` if it is not as it was written."""
        path = self.path(recipe)
        if not path.exists():
            return None
        entry = read_snapshot(path)
        parts = entry.group("parts")
        try:
            return Splits(
                graphs=PackedGraphs.from_tensors(entry.group("graphs")),
                parts={name: parts[name] for name in entry.values["parts"]},
                schema=Schema.from_json(entry.values["schema"]),
                source=dict(entry.values["source"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise DamagedSnapshot(f"{path} does not fit together: {problem}") from None

    def store(self, recipe: Mapping[str, Any], splits: Splits) -> None:
        """Write an entry, replacing what was there."""
        tensors = {f"graphs.{name}": value for name, value in splits.graphs.tensors().items()}
        tensors |= {f"parts.{name}": index for name, index in splits.parts.items()}
        values = {
            "recipe": dict(recipe),
            "source": dict(splits.source),
            "schema": splits.schema.to_json(),
            "parts": list(splits.parts),
        }
        write_snapshot(self.path(recipe), Snapshot(tensors, values))

    def load_or_build(
        self,
        recipe: Mapping[str, Any],
        build: Callable[[], Iterable[tuple[Mapping[str, Any], Splits]]],
        together: str | None = None,
    ) -> Splits:
        """Load the entry, or build it and whatever comes with it, once, whoever else wants it at the same time.

        Args:
            recipe: of the entry that is wanted.
            build: makes (recipe, splits) for this entry and any others that the same work yields.
            together: a name that all entries of the same work share, so that only one process does it.
        """
        with contextlib.suppress(DamagedSnapshot):
            found = self.load(recipe)
            if found is not None:
                return found
        with self.lock(together or self.path(recipe).name):
            found = self._load_intact(recipe)
            if found is not None:
                return found
            for made_by, splits in build():
                sweep(self.folder, self.path(made_by).name)
                self.store(made_by, splits)
            built = self.load(recipe)
        assert built is not None, "build() did not make the entry it was asked for"
        return built

    def _load_intact(self, recipe: Mapping[str, Any]) -> Splits | None:
        try:
            return self.load(recipe)
        except DamagedSnapshot as problem:
            say(f"The cache entry {problem}; preparing it again", "yellow")
            return None
