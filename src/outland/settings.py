"""Typed settings from plain values, by pydantic: `{"gamma": "0.5"}` becomes a dataclass, or a sentence why not."""

import dataclasses
import re
import types
from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Annotated, Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from outland.errors import OutlandError, unknown

T = TypeVar("T")
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
GeneratorSeed = Annotated[int, Field(ge=0, le=2**32 - 1)]  # as NumPy takes it
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
PositiveInt = Annotated[int, Field(ge=1, le=2**31 - 1)]
_FINITE = ConfigDict(allow_inf_nan=False)
_TYPE_NAMES: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def settings(group: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: a frozen dataclass whose values are checked; an `OutlandError` calls them `group.field`."""

    def decorate(cls: type[T]) -> type[T]:
        checked: Any = pydantic_dataclass(frozen=True, config=ConfigDict(**_FINITE, extra="forbid"))(cls)
        initialize, hints = checked.__init__, get_type_hints(cls, include_extras=True)

        @wraps(initialize)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                initialize(self, *args, **kwargs)
            except ValidationError as problem:
                error = problem.errors()[0]
                if error["type"] in ("missing", "missing_argument", "unexpected_positional_argument"):
                    raise  # a mistake in a program
                name = error["loc"][0]
                name = list(hints)[name] if isinstance(name, int) else name  # of a positional argument its index
                if name not in hints:
                    raise unknown(f"setting of {group}", name, hints) from None
                raise _error(error, hints[name], f"{group}.{name}") from None

        checked.__init__ = __init__
        return checked  # type: ignore[no-any-return]

    return decorate


def change(settings: T, values: Mapping[str, Any], where: str) -> T:
    """Return a copy of the dataclass `settings` with `values` put in, each checked against its type."""
    cls: Any = type(settings)
    hints = get_type_hints(cls, include_extras=True)
    names = [field.name for field in dataclasses.fields(cls)]
    for name in values:
        if name not in names:
            raise unknown(f"setting of {where}", name, names)
    parsed = {name: parse(value, hints[name], f"{where}.{name}") for name, value in values.items()}
    changed: T = dataclasses.replace(settings, **parsed)  # type: ignore[type-var]
    return changed


def parse(value: Any, kind: Any, where: str) -> Any:
    """Convert `value`, perhaps text from the command line, to the type `kind`; `where` names it in errors."""
    base, optional = _base_type(kind)
    if optional and (value is None or str(value).lower() == "none"):
        return None
    if base is str and not isinstance(value, str | list | tuple):
        value = str(value)
    if base in (int, float) and isinstance(value, str):
        value = _number(value)
    if isinstance(value, bool) and base in (int, float):
        value = str(value)  # true is not a number
    try:
        return _finite_adapter(kind).validate_python(value)
    except ValidationError as problem:
        raise _error(problem.errors()[0], kind, where) from None


@cache
def _finite_adapter(kind: Any) -> TypeAdapter[Any]:
    """Made once for each kind, which takes a hundred times as long as to use it."""
    return TypeAdapter(kind, config=_FINITE)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _number(text: str) -> Any:
    """`1e3` as 1000, also where a whole number is asked for; the text itself if it is no number."""
    try:
        number = float(text)
    except ValueError:
        return text
    if number.is_integer() and abs(number) < 1e300:
        return int(text) if text.strip().lstrip("+-").isdecimal() else int(number)  # digits are exact
    return text if number != number else number


def _base_type(kind: Any) -> tuple[Any, bool]:
    """The type without `Annotated` and `None`, and whether `None` is allowed."""
    if get_origin(kind) is Annotated:
        return _base_type(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        options = [option for option in get_args(kind) if option is not type(None)]
        return _base_type(options[0])[0], len(options) < len(get_args(kind))
    return kind, False


def _bounds(kind: Any) -> tuple[float | None, float | None]:
    """The least and the greatest value that the annotations of a type allow."""
    bounds: dict[str, float] = {}
    for option in (kind, *get_args(kind)):
        for constraint in getattr(option, "__metadata__", ()):
            for part in getattr(constraint, "metadata", [constraint]):
                bounds |= {name: getattr(part, name) for name in ("ge", "le") if hasattr(part, name)}
    return bounds.get("ge"), bounds.get("le")


def _error(error: Any, kind: Any, where: str) -> OutlandError:
    """A pydantic error as a sentence."""
    value, base = error["input"], _base_type(kind)[0]
    least, most = _bounds(kind)
    if get_origin(base) is Literal:
        return unknown(f"value of {where}", str(value), map(str, get_args(base)))
    if error["type"] in ("greater_than_equal", "less_than_equal", "finite_number") and least is not None:
        law = f"at least {_plain(least)}"
        if most is not None:
            law = f"from {_plain(least)} to {_plain(most)}"
            if most >= 2**31 - 1:  # a bound that nobody meant to meet
                law = f"at most {_plain(most)}" if error["type"] == "less_than_equal" else f"at least {_plain(least)}"
        return OutlandError(f"{where} must be {law}, not {value if isinstance(value, str) else format(value, 'g')}")
    return OutlandError(f"{where} takes {_TYPE_NAMES.get(base, base)}, not '{value}'")


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def is_valid(value: Any, kind: Any) -> bool:
    """Whether a plain value, as JSON and TOML have them, is of a type down to its last leaf.

    >>> is_valid({"a": [1, 2.5]}, dict[str, list[float]]), is_valid({"a": [1, "x"]}, dict[str, list[float]])
    (True, False)
    """
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


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
