"""Named tensors in a safetensors file, written piece by piece: what is written need not fit in memory.

Nor need what is read: the library maps the file, so that the operating system fetches what is used and lets go of it
again when memory is short.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass(frozen=True)
class Pieces:
    """A tensor in pieces.

    Args:
        shape, dtype: of the whole.
        parts: its values in order, in any type.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    parts: Iterable[Tensor]

    @classmethod
    def whole(cls, tensor: Tensor) -> "Pieces":
        """A tensor that is there already."""
        return cls(tuple(tensor.shape), tensor.dtype, [tensor])

    @property
    def size(self) -> int:
        """Bytes."""
        return self.dtype.itemsize * torch.Size(self.shape).numel()


def write_tensors(path: Path, named: Mapping[str, Tensor | Pieces]) -> None:
    """Write tensors; at no time is more of one in memory than its largest piece."""
    columns = {name: one if isinstance(one, Pieces) else Pieces.whole(one) for name, one in named.items()}
    names = sorted(columns, key=lambda name: (-columns[name].dtype.itemsize, name))  # so that each begins where it may
    header, place = {}, 0
    for name in names:
        one = columns[name]
        header[name] = {
            "dtype": _NAMES[one.dtype],
            "shape": list(one.shape),
            "data_offsets": [place, place + one.size],
        }
        place += one.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            for part in columns[name].parts:
                flat = part.detach().to("cpu", columns[name].dtype).contiguous().reshape(-1)
                stream.write(flat.view(torch.uint8).numpy().data)
        if stream.tell() != 8 + len(text) + place:
            raise ValueError("the pieces of a tensor are not what its shape says")
