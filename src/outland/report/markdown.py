"""Pieces of pages in Markdown: text in lines of the repository's width, and tables."""

import textwrap
from collections.abc import Sequence

_WIDTH = 120
_NO_BREAK = "\N{NO-BREAK SPACE}"


def filled(text: str, bullet: str = "") -> str:
    """Text in lines of the repository's width."""
    hanging = " " * len(bullet)
    wrapper = textwrap.TextWrapper(_WIDTH, bullet, hanging, break_on_hyphens=False, break_long_words=False)
    return wrapper.fill(text)


def unbroken(text: str) -> str:
    """Text that a browser keeps on one line."""
    return text.replace(" ", _NO_BREAK)


def piped(cells: Sequence[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def pipe_table(head: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """A table whose columns are aligned to the right, but for those in `left`."""
    rule = ["---" if index in left else "---:" for index in range(len(head))]
    return "\n".join(piped(line) for line in (head, rule, *lines))
