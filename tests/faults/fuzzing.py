"""Mutations by a seeded generator: a hypothesis example is a seed, and stands for many inputs."""

import json
import math
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.faults.harness import scaled
from tests.faults.hostile import Tried

BATCH = 50  # inputs that follow from one seed
ODD: list[Any] = [None, True, False, 0, -1, 1, 10**9, 2**31, 2**63, 2**64, 10**30, 1e308, -0.0, 0.5, "", "x", "nan"]
ODD += ["../../x", "/etc/passwd", "a" * 5000, "\x00", "\x1b[31m", "[/b]", "{{7*7}}", "evil.py:Evil", "\ud800", [], {}]
ODD += [[0], [[[]]], {"a": 1}, ["a", None, 1.5], "9" * 400, -(2**63), 1e-320, "é" * 40]


def mutated_json(chance: random.Random, plain: Any, most: int = 3) -> Any:
    """A copy of a JSON value with a few of its parts changed, moved, doubled or taken away."""
    changed = json.loads(json.dumps(plain))
    for _ in range(chance.randint(1, most)):
        holders = list(_holders(changed))
        if not holders:
            return deepcopy(chance.choice(ODD))
        holder = chance.choice(holders)
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key, kind = chance.choice(keys), chance.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = json.loads(json.dumps(holder[chance.choice(keys)]))
        elif kind == 2 and isinstance(holder, dict):
            holder[str(chance.choice(ODD))[:20]] = deepcopy(holder[key])
        elif kind == 3 and isinstance(holder, list):
            holder.extend(json.loads(json.dumps(holder[:50])))
        else:
            holder[key] = deepcopy(chance.choice(ODD))
    return changed


def _holders(value: Any) -> Any:
    if isinstance(value, dict | list) and value:
        yield value
        for item in value.values() if isinstance(value, dict) else value[:40]:
            yield from _holders(item)


def mutated_bytes(chance: random.Random, whole: bytes) -> bytes:
    """A copy of bytes that were flipped, cut, put in, doubled or zeroed in a few places."""
    content = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(content):
            content[at] ^= chance.randint(1, 255)
        elif kind == 1:
            del content[at:]
        elif kind == 2:
            content[at:at] = chance.randbytes(chance.randint(1, 30))
        elif kind == 3:
            content[at:at] = content[at : at + chance.randint(1, 200)]
        elif kind == 4:
            content[at : at + 16] = bytes(len(content[at : at + 16]))
        elif chance.random() < 0.1:
            content = bytearray(chance.randbytes(chance.randrange(300)))
    return bytes(content)


def mutated_tensors(chance: random.Random, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Named tensors of which one or two are gone, renamed, of another kind or shape, or hold other numbers."""
    changed = dict(tensors)
    for name in chance.sample(sorted(tensors), chance.randint(1, 2)):
        tensor = changed.pop(name)
        kind = chance.randrange(8)
        if kind == 0:
            continue
        if kind == 1:
            changed[f"{name}x"] = tensor
        elif kind == 2:
            changed[name] = tensor.double() if tensor.dtype != torch.double else tensor.int()
        elif kind == 3:
            changed[name] = torch.atleast_1d(tensor)[: chance.randrange(2)].clone()
        elif kind == 4:
            changed[name] = tensor[None].clone()
        else:
            number = chance.choice([math.nan, math.inf, -math.inf, 3e38, -1.0, 100.0, 0.0])
            number = number if tensor.is_floating_point() or math.isfinite(number) else -1.0
            number = number if tensor.is_floating_point() else max(-1, min(number, 100))
            changed[name] = tensor.clone()
            if tensor.numel():
                changed[name].view(-1)[chance.randrange(tensor.numel())] = (
                    int(number) if tensor.dtype in _WHOLE else number
                )
    return changed


_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def fuzz(inputs: int, one: Callable[[random.Random], Callable[[], Any]]) -> Tried:
    """Try so many inputs; `one` makes an input from a generator and gives the work that is to be done on it."""
    tried = Tried()
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

    @settings(
        max_examples=max(1, scaled(inputs) // BATCH),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=checks,
    )
    @given(st.integers(0, 2**64))
    def batch(seed: int) -> None:
        for number in range(min(BATCH, scaled(inputs))):
            tried(one(random.Random(f"{seed} {number}")))

    batch()
    return tried
