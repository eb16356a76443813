"""Prepared graphs on disk: keyed by recipe, checksummed, written whole or not at all."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock
from safetensors.torch import load_file, save_file

from outland.errors import OutlandError
from outland.files import canonical_json, checksum, digest, new_folder, writable_folder
from outland.graphs.packed import PackedGraphs
from outland.graphs.schema import Schema
from outland.graphs.splits import Splits
from outland.progress import console

VERSION = 1  # of the layout on disk; a new one leaves old entries untouched and unused
_TENSORS, _ABOUT = "graphs.safetensors", "about.json"


class DamagedEntry(OutlandError):
    """A cache entry whose files are missing, cut short or changed."""


class Cache:
    """A folder of prepared `Splits`, one sub-folder each.

    Args:
        folder: where; by default `OUTLAND_CACHE`, else the user's cache folder.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        default = os.environ.get("OUTLAND_CACHE") or platformdirs.user_cache_dir("outland")
        self.folder = Path(folder or default)

    def path(self, recipe: Mapping[str, Any]) -> Path:
        """The folder of the entry made by `recipe`."""
        key = digest(canonical_json({"version": VERSION, "recipe": dict(recipe)}))[:16]
        return self.folder / f"{recipe['name']}-{key}"

    @contextmanager
    def lock(self, recipe: Mapping[str, Any]) -> Iterator[None]:
        """Hold the right to build an entry; a second process waits, then finds it built."""
        writable_folder(self.folder)
        with FileLock(str(self.path(recipe)) + ".lock"):
            yield

    def load(self, recipe: Mapping[str, Any]) -> Splits | None:
        """The entry made by `recipe`; None if there is none; `DamagedEntry` if it is not as it was written."""
        path = self.path(recipe)
        if not path.exists():
            return None
        try:
            about = json.loads((path / _ABOUT).read_text())
            intact = checksum(path / _TENSORS) == about["sha256"]
        except (OSError, ValueError, KeyError) as problem:
            raise DamagedEntry(f"the cache entry {path} cannot be read: {problem}") from None
        if not intact:
            raise DamagedEntry(f"the cache entry {path} has changed since it was written")
        named = load_file(path / _TENSORS)
        parts = {name.removeprefix("parts."): value for name, value in named.items() if name.startswith("parts.")}
        rest = {name: value for name, value in named.items() if not name.startswith("parts.")}
        order = {name: parts[name] for name in about["parts"]}
        return Splits(PackedGraphs.from_tensors(rest), order, Schema.from_json(about["schema"]), about["recipe"])

    def store(self, recipe: Mapping[str, Any], splits: Splits) -> None:
        """Write an entry, replacing what was there."""
        named = splits.graphs.tensors() | {f"parts.{name}": index for name, index in splits.parts.items()}
        try:
            with new_folder(self.path(recipe)) as folder:
                save_file({name: value.clone().contiguous() for name, value in named.items()}, folder / _TENSORS)
                about = {
                    "recipe": dict(recipe),
                    "schema": splits.schema.to_json(),
                    "parts": list(splits.parts),
                    "sha256": checksum(folder / _TENSORS),
                }
                (folder / _ABOUT).write_text(json.dumps(about, indent=1))
        except OSError as problem:
            raise OutlandError(f"cannot write the cache entry {self.path(recipe)}: {problem}") from None

    def load_or_build(
        self, recipe: Mapping[str, Any], build: Callable[[], Iterable[tuple[Mapping[str, Any], Splits]]]
    ) -> Splits:
        """Load the entry, or build it and whatever comes with it, once, whoever else wants it at the same time.

        Args:
            recipe: of the entry that is wanted.
            build: makes (recipe, splits) for this entry and any others that the same work yields.
        """
        found = self._load_intact(recipe)
        if found is not None:
            return found
        with self.lock(recipe):
            found = self._load_intact(recipe)
            if found is not None:
                return found
            for made_by, splits in build():
                self.store(made_by, splits)
        built = self.load(recipe)
        assert built is not None, "build() did not make the entry it was asked for"
        return built

    def _load_intact(self, recipe: Mapping[str, Any]) -> Splits | None:
        try:
            return self.load(recipe)
        except DamagedEntry as problem:
            console().print(f"[yellow]{problem}; preparing it again[/]")
            return None
