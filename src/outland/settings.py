"""Typed settings from plain values: `{"gamma": "0.5"}` becomes a dataclass, or a sentence saying why not."""

import dataclasses
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from outland.errors import OutlandError, unknown

T = TypeVar("T")
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def change(settings: T, values: Mapping[str, Any], where: str) -> T:
    """Return a copy of the dataclass `settings` with `values` put in, each checked against its type."""
    cls: Any = type(settings)
    hints = get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in names:
            raise unknown(f"setting of {where}", name, names)
    fitted = {name: fit(value, hints[name], f"{where}.{name}") for name, value in values.items()}
    changed: T = dataclasses.replace(settings, **fitted)  # type: ignore[type-var]
    return changed


def check_ranges(settings: Any, where: str, **ranges: tuple[float | None, float | None]) -> None:
    """Refuse numbers outside `name=(least, most)`, either of which may be None; None values pass."""
    for name, (least, most) in ranges.items():
        value = getattr(settings, name)
        if value is None:
            continue
        low, high = least is not None and value < least, most is not None and value > most
        if low or high or not math.isfinite(value):
            law = f"at least {least:g}" if most is None else f"from {least:g} to {most:g}"
            raise OutlandError(f"{where}.{name} must be {law}, not {value:g}")


def fit(value: Any, kind: Any, where: str) -> Any:
    """Turn `value`, perhaps text from the command line, into `kind`."""
    if get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
        raise unknown(f"value of {where}", str(value), map(str, get_args(kind)))
    if isinstance(value, list | tuple) and any(get_origin(option) is tuple for option in get_args(kind)):
        return tuple(str(item) for item in value)
    if get_origin(kind) in (Union, types.UnionType):
        if value is None or str(value).lower() == "none":
            return None
        kind = next(option for option in get_args(kind) if option is not type(None))
        return fit(value, kind, where)
    try:
        return _plain(value, kind)
    except (TypeError, ValueError, KeyError, OverflowError):
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
        raise OutlandError(f"{where} takes {words.get(kind, kind)}, not '{value}'") from None


def shaped(value: Any, kind: Any) -> bool:
    """Whether a plain value, as JSON and TOML have them, is of a type down to its last leaf.

    >>> shaped({"a": [1, 2.5]}, dict[str, list[float]]), shaped({"a": [1, "x"]}, dict[str, list[float]])
    (True, False)
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any or origin is Literal:
        return kind is Any or value in parts
    if origin in (Union, types.UnionType):
        return any(shaped(value, part) for part in parts)
    if origin is dict:
        return isinstance(value, dict) and all(shaped(k, parts[0]) and shaped(v, parts[1]) for k, v in value.items())
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(shaped(one, parts[0]) for one in value)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return isinstance(value, dict) and set(value) == set(hints) and all(shaped(value[n], hints[n]) for n in hints)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _plain(value: Any, kind: Any) -> Any:
    if kind is bool:
        return _WORDS[str(value).lower()]
    if kind is int:
        if isinstance(value, bool) or float(value) != int(float(value)):
            raise ValueError
        return int(float(value))
    if kind is float:
        number = float(value)
        if math.isnan(number):
            raise ValueError
        return number
    if kind is str:
        return str(value)
    raise TypeError(kind)


def describe(settings: Any) -> list[tuple[str, str, str]]:
    """Name, value and meaning of every setting; the meaning is what the class's doc-string says under Args."""
    meanings: dict[str, str] = {}
    names: list[str] = []
    for cls in reversed(type(settings).__mro__):
        _, _, block = (cls.__doc__ or "").partition("Args:\n")
        for line in block.splitlines():
            entry = re.fullmatch(r" {8}(\w+(?:, \w+)*): (.+)", line)
            if entry:
                names = entry.group(1).split(", ")
                meanings |= dict.fromkeys(names, entry.group(2))
            elif names and line.startswith(" " * 12):
                meanings |= dict.fromkeys(names, f"{meanings[names[-1]]} {line.strip()}")
    hints = get_type_hints(type(settings))
    rows = []
    for field in dataclasses.fields(settings):
        meaning, words = meanings.get(field.name, ""), get_args(hints[field.name])
        if get_origin(hints[field.name]) is Literal and not all(f"`{word}`" in meaning for word in words):
            meaning += f" One of {', '.join(words)}."
        rows.append((field.name, str(getattr(settings, field.name)), meaning))
    return rows


def parse_assignments(assignments: Iterable[str], groups: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read `group.name=value` words into one dictionary a group.

    >>> parse_assignments(["method.gamma=0.5"], ["method", "train"])
    {'method': {'gamma': '0.5'}, 'train': {}}
    """
    parsed: dict[str, dict[str, str]] = {group: {} for group in groups}
    for word in assignments:
        path, equals, value = word.partition("=")
        group, dot, name = path.strip().partition(".")
        if not (equals and dot and name):
            raise OutlandError(f"'{word}' is not a setting: write it as GROUP.NAME=VALUE, as in method.gamma=0.5")
        if group not in parsed:
            raise unknown("group of settings", group, parsed)
        parsed[group][name] = value.strip()
    return parsed
