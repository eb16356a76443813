"""Files as an enemy, a bad disk or a hasty editor would leave them."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from outland.errors import OutlandError
from outland.storage.files import canonical_json, checksum, digest
from outland.storage.snapshots import Snapshot
from tests.faults.harness import scaled

LIMIT = 10.0  # seconds of work after which an input has made us hang


class Tried:
    """Tries inputs, each of which must end well or in a sentence, and soon."""

    def __init__(self) -> None:
        self.inputs = self.refused = 0

    def __call__(self, work: Callable[[], Any]) -> Any:
        """Do some work on an input; None where it was refused."""
        self.inputs += 1
        started = time.process_time()  # of our own: others may be at work here; one that waits meets the test's timeout
        found, refusal = None, "no"
        try:
            found = work()
        except OutlandError as problem:
            self.refused += 1
            refusal = str(problem).strip()
        assert refusal  # a sentence
        assert time.process_time() - started < LIMIT
        return found


def many(count: int) -> Any:
    """So many inputs, the same every time."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=scaled(count), deadline=None, derandomize=True, database=None, suppress_health_check=checks
    )


@st.composite
def damaged(draw: Any, whole: bytes) -> bytes:
    """A file that was whole: bits flipped, cut short, something put in, something doubled, or nothing left of it."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(content) - 1, 0)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "repeat", "zero", "random"]))
        if kind == "flip" and content:
            content[place] ^= draw(st.integers(1, 255))
        elif kind == "cut":
            del content[place:]
        elif kind == "insert":
            content[place:place] = draw(st.binary(min_size=1, max_size=30))
        elif kind == "repeat":
            content[place:place] = content[place : place + draw(st.integers(1, 200))]
        elif kind == "zero":
            content[place : place + 16] = bytes(len(content[place : place + 16]))
        elif draw(st.integers(0, 9)) == 0:
            content = bytearray(draw(st.binary(max_size=300)))
    return bytes(content)


deep = st.integers(1, 20_000).map(lambda depth: json.loads("[" * min(depth, 400) + "]" * min(depth, 400)))
odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 10**9, 2**63, 10**30, math.nan, math.inf, -math.inf, 1e308, -0.0]),
    st.text(max_size=10),
    st.sampled_from(["", "../../x", "/etc/passwd", "nan", "a" * 5000, "\x00", "[/b]", "{{7*7}}", "evil.py:Evil"]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=3),
    deep,
)


@st.composite
def altered(draw: Any, plain: Any) -> Any:
    """A JSON value with a few of its parts changed, added or taken away."""
    changed = json.loads(json.dumps(plain))
    for _ in range(draw(st.integers(1, 3))):
        place = changed
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            inside = isinstance(place[key], dict | list) and len(place[key]) > 0
            if inside and draw(st.integers(0, 3)):
                place = place[key]
                continue
            if draw(st.integers(0, 4)) == 0:
                del place[key]
            else:
                place[key] = draw(odd)
            break
    return changed


def sealed(folder: Path, values: object, tensors: bytes | dict) -> Path:
    """A snapshot by somebody who knows how to seal one."""
    folder.mkdir(exist_ok=True)
    if isinstance(tensors, bytes):
        (folder / "tensors.safetensors").write_bytes(tensors)
    else:
        save_file(tensors, folder / "tensors.safetensors")
    state = {"format": 1, "sha256": checksum(folder / "tensors.safetensors"), "values": values}
    (folder / "state.json").write_text(json.dumps({**state, "seal": digest(canonical_json(state))}))
    return folder


def resealed(count: int, saved: Snapshot, folder: Path, use: Callable[[], Any]) -> Tried:
    """Use a snapshot whose values somebody has changed and sealed again, so many times."""
    tried = Tried()

    @many(count)
    @given(altered(saved.values))
    def one(values: Any) -> None:
        try:
            sealed(folder, values, saved.tensors)
        except ValueError:  # NaN cannot be sealed
            return
        tried(use)

    one()
    return tried
