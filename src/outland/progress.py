"""Progress bars on the terminal, and silence where there is none."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import track as rich_track

from outland.errors import printable

T = TypeVar("T")


def console() -> Console:
    """The screen for progress and remarks: standard error, so that results can be piped."""
    return Console(stderr=True)


def screen(**options: Any) -> Console:
    """The screen for results: standard output, on which a bracket in a name or a value is no markup."""
    return Console(markup=False, emoji=False, **options)


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Go through `items` under a progress bar; without a terminal, just go through them."""
    if not sys.stderr.isatty():
        yield from items
        return
    yield from rich_track(items, escape(description), total=total, console=console(), transient=True)


def say(words: str, style: str | None = None) -> None:
    """A remark beside the bars, as it is: a bracket in a path is no markup."""
    console().print(printable(words), style=style, soft_wrap=True, highlight=False, markup=False)
