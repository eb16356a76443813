"""What is printed: results, remarks and progress bars, all without control characters of strangers."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from outland.errors import printable

T = TypeVar("T")


class _Console(Console):
    """A console on which the text of a cell, a title or a remark is text: control characters are replaced."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of something to print; those that are rich's own commands stay as they are."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text, None))


def console() -> Console:
    """The screen for progress and remarks: standard error, so that results can be piped."""
    return _Console(stderr=True)


def screen(**options: Any) -> Console:
    """The screen for results: standard output, on which a bracket in a name or a value is no markup."""
    return _Console(markup=False, emoji=False, **options)


def echo(words: str, *, err: bool = False, fg: str | None = None) -> None:
    """A line of results as it is, on standard output or standard error, in a colour on a terminal."""
    import typer

    typer.secho(printable(words, None), err=err, fg=fg)


def track(items: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Go through `items` under a progress bar; without a terminal, just go through them."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.progress import track as rich_track

    yield from rich_track(items, escape(description), total=total, console=console(), transient=True)


def say(words: str, style: str | None = None) -> None:
    """A remark beside the bars, as it is: a bracket in a path is no markup."""
    console().print(printable(words), style=style, soft_wrap=True, highlight=False, markup=False)
