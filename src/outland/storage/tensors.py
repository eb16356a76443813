"""Named tensors in a safetensors file, written chunk by chunk: what is written need not fit in memory.

Nor need what is read: safetensors maps the file, so that the operating system loads the pages that are used and drops
them when memory is short.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {
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
class ChunkedTensor:
    """A tensor in chunks: shape and dtype of the whole."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    chunks: Iterable[Tensor]  # the values in order, in any dtype

    @property
    def nbytes(self) -> int:
        """Size of the whole tensor."""
        return self.dtype.itemsize * torch.Size(self.shape).numel()


def write_tensors(path: Path, tensors: Mapping[str, Tensor | ChunkedTensor]) -> None:
    """Write a safetensors file; no more of a chunked tensor is in memory than its largest chunk."""
    # The widest first, for alignment.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header, offset = {}, 0
    for name, tensor in ordered:
        end = offset + tensor.nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            for chunk in tensor.chunks if isinstance(tensor, ChunkedTensor) else [tensor]:
                flat = chunk.detach().to("cpu", tensor.dtype).contiguous().reshape(-1)
                stream.write(flat.view(torch.uint8).numpy().data)
        if stream.tell() != 8 + len(text) + offset:
            raise ValueError("the chunks of a tensor are not what its shape says")
