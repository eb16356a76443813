"""Which rows a model was trained on: hashes of their SMILES, kept with it."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import torch
from torch import Tensor

from outland.errors import counted


def text_hash(text: str) -> int:
    """A signed 64-bit hash: the first eight bytes of the text's SHA-256, surrounding blanks stripped."""
    digest = sha256(text.strip().encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def sorted_hashes(texts: Iterable[str]) -> Tensor:
    """The hashes as a model keeps them: unique and sorted."""
    return torch.tensor(sorted({text_hash(text) for text in texts}), dtype=torch.long)


def are_training_rows(texts: Sequence[str], training: Tensor) -> list[bool]:
    """Whether each text is among those with the hashes `training`."""
    hashes = torch.tensor([text_hash(text) for text in texts], dtype=torch.long)
    matches: list[bool] = torch.isin(hashes, training).tolist()
    return matches


def training_rows_note(seen: int, rows: int) -> str:
    """What to think of errors on rows of which so many were trained on; empty where none was."""
    if not seen:
        return ""
    verb = "was" if seen == 1 else "were"
    return (
        f"{seen:,} of these {counted(rows, 'row')} {verb} in the model's training (or chose its epoch): its errors "
        "here flatter it"
    )
