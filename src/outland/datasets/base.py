"""What every source of graphs offers."""

from collections.abc import Mapping
from typing import Any, ClassVar

from outland.errors import unknown
from outland.graphs import Cache, Splits


class Dataset:
    """A source of graphs with one or more shifts: subclass it in a file of your own and give it a `load`.

    Attributes:
        name: what it is called on the command line.
        summary: one line for `outland list datasets`.
        domains: what may shift (`base`, `size`, `scaffold`, ...), the usual one first.
        kinds: how it may shift: `covariate`, `concept`, `none`.
        recommended: settings that runs on this set start from, as `group.name`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    domains: ClassVar[tuple[str, ...]]
    kinds: ClassVar[tuple[str, ...]] = ("covariate",)
    recommended: ClassVar[Mapping[str, Any]] = {}

    def load(self, domain: str, kind: str, seed: int = 123, cache: Cache | None = None) -> Splits:
        """The splits under one shift, from the cache or made anew."""
        raise NotImplementedError

    def check(self, domain: str, kind: str) -> None:
        """Refuse a shift that this set does not have."""
        if domain not in self.domains:
            raise unknown(f"shift of {self.name}", domain, self.domains)
        if kind not in self.kinds:
            raise unknown(f"kind of shift of {self.name}", kind, self.kinds)
