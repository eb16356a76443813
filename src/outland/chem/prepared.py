"""Prepared molecules in the cache: those of the installed RDKit, or of another one."""

from collections.abc import Callable

from outland.chem.featurizer import rdkit, rdkit_version
from outland.graphs import Cache, Splits
from outland.graphs.cache import Key
from outland.progress import say


def load_molecules(cache: Cache, recipe: Key, build: Callable[[Key], Splits], has_raw: bool) -> Splits:
    """The entry of this recipe by the installed RDKit: from the cache, or built.

    Where RDKit is missing, or has no entry and no raw file to build it from, it is the entry of the newest RDKit that
    the cache has. The source of the splits names the version.
    """
    version = rdkit_version()
    key = {**recipe, "rdkit": version}
    if version is None or not (has_raw or cache.path(key).exists()):
        other = cache.find(recipe, "rdkit")
        entry = None if other is None else cache.load(other)
        if other is not None and entry is not None:
            if version is not None:
                say(
                    f"{recipe['name']} is as RDKit {other['rdkit']} prepared it; the installed one is {version}",
                    "yellow",
                )
            return entry
        rdkit()  # an error where it is missing
    return cache.load_or_build(key, lambda: build(key))
