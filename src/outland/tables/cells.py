"""What a cell says: nothing, a number, a limit such as `>10`, or a word for yes or no."""

import re
from contextlib import suppress

_MISSING = {"", "na", "nan", "n/a", "none", "null", "?", "-"}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_LIMIT = re.compile(r"\s*(?:[<>]=?|=[<>]|[≤≥]|>>|<<)\s*(.+)")
_QUANTITY = re.compile(r"\s*[~≈<>≤≥=]*\s*[+-]?\.?\d.*", re.DOTALL)
POSITIVE = {"1", "1.0", "true", "yes", "active", "positive", "pos", "t", "y", "+"}
NEGATIVE = {"0", "0.0", "false", "no", "inactive", "negative", "neg", "f", "n", "-"}


def is_missing(text: str) -> bool:
    """Whether a cell holds no value."""
    return text.strip().lower() in _MISSING


def parse_number(text: str, decimal_comma: bool = False) -> float | None:
    """The number in a cell; None if there is none, or none that single precision can hold.

    A comma is a decimal one, unless exactly three digits follow it and it may as well separate thousands; where cells
    are not separated by commas (`decimal_comma`) it always is.
    """
    text = text.strip()
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    if _DECIMAL_COMMA.fullmatch(text) and (decimal_comma or not _THOUSANDS.fullmatch(text)):
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 3e38 else None


def parse_limit(text: str, decimal_comma: bool = False) -> float | None:
    """The number of a limit such as `>10` or `<= 5`, as assays report what is out of their range; None for others."""
    match = _LIMIT.fullmatch(text)
    return None if match is None else parse_number(match.group(1), decimal_comma)


def is_quantity(text: str) -> bool:
    """Whether a number or a limit is followed by something else, as `3.2 uM`, `>10 nM`, `2.3 ± 0.1` or `10,573`."""
    if _QUANTITY.fullmatch(text) is None or parse_number(text) is not None or parse_limit(text) is not None:
        return False
    with suppress(ValueError):
        float(text)  # too large a number
        return False
    return True


def parse_yes_no(text: str) -> float | None:
    """1 for a word such as `active`, `yes` or `TRUE`, 0 for its opposite, None for any other."""
    word = text.strip().lower()
    return 1.0 if word in POSITIVE else 0.0 if word in NEGATIVE else None
