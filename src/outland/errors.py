"""Errors a person can act on: what went wrong, where, and what to do."""

import difflib
import errno
from collections.abc import Iterable

_MOST_COMPARED = 1000  # names that are compared with a mistyped one


class OutlandError(Exception):
    """Something the user can mend. The command line prints it as one sentence, without a traceback."""


class Busy(OutlandError):
    """Another process is at it: no failure, and nothing to write down."""


class CannotWrite(OutlandError):
    """The disk is full or refuses: no fault of what was to be written, which may be tried again when there is space."""


class NotPermitted(CannotWrite):
    """Another user's file or folder, or a file system that is read-only."""


def cannot_write(path: object, problem: OSError) -> CannotWrite:
    """The error of something that could not be written, with the system's reason."""
    kind = NotPermitted if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else CannotWrite
    return kind(f"cannot write {path}: {problem.strerror or problem}")


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "run"), counted(1200, "run")
    ('1 run', '1,200 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: str, most: int | None = 2000) -> str:
    """A stranger's words, safe to print: no control characters, and not without end, unless `most` is None.

    >>> printable("a" + chr(27) + "[31mb")
    'a?[31mb'
    """
    shown = text[:most]
    if not shown.isprintable():
        shown = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in shown)
    return shown if most is None or len(text) <= most else f"{shown}…"


def listed(names: Iterable[str], last: str = "and", most: int = 10) -> str:
    """Names with commas, at most ten of them, and how many more there are.

    >>> listed(["a", "b", "c"]), listed(map(str, range(12)))
    ('a, b and c', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    names = list(names)
    shown = [name if len(name) <= 80 else f"{name[:77]}..." for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return f" {last} ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def unknown(kind: str, name: str, valid: Iterable[str], most: int | None = None) -> OutlandError:
    """Say that `name` is no such thing, with the nearest valid name and the others: all, or so many of them.

    >>> print(unknown("method", "aai", ["erm", "aia"]))
    unknown method 'aai'. Did you mean 'aia'? Valid: aia, erm
    """
    names = sorted(valid)
    plain = {each.lower(): each for each in names[:_MOST_COMPARED]}
    close = difflib.get_close_matches(name.lower(), plain, n=1, cutoff=0.5)
    hint = f" Did you mean '{plain[close[0]]}'?" if close else ""
    shown = ", ".join(names) if most is None or len(names) <= most else listed(names, most=most)
    return OutlandError(f"unknown {kind} '{name}'.{hint} Valid: {shown}")
