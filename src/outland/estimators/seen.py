"""Which rows a model has seen: hashes of their texts, kept with it."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from outland.errors import counted


def hashes(texts: Iterable[str]) -> Tensor:
    """A number for each text: the first eight bytes of its SHA-256, blanks around it taken off."""
    found = [sha256(text.strip().encode("utf-8", "surrogateescape")).digest()[:8] for text in texts]
    return torch.from_numpy(np.frombuffer(b"".join(found), dtype="<i8").astype(np.int64))


def sorted_hashes(texts: Iterable[str]) -> Tensor:
    """The same as a model keeps them: each once, in order."""
    found: Tensor = hashes(texts).unique()
    return found


def were_seen(texts: Sequence[str], seen: Tensor) -> list[bool]:
    """Which of these texts are among those a model keeps."""
    if not len(seen):
        return [False] * len(texts)
    own = hashes(texts)
    places = torch.searchsorted(seen, own).clamp(max=len(seen) - 1)
    found: list[bool] = (seen[places] == own).tolist()
    return found


def seen_words(seen: int, rows: int) -> str:
    """What to think of errors on rows of which so many were seen; the empty text where none was."""
    if not seen:
        return ""
    verb = "was" if seen == 1 else "were"
    return (
        f"{seen:,} of these {counted(rows, 'row')} {verb} in the model's training (or chose its epoch): its errors "
        "here flatter it"
    )
