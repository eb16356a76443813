"""Named tensors in a safetensors file, written chunk by chunk: what is written need not fit in memory.

Nor need what is read. A file of up to `IN_MEMORY` bytes is read at once, and what happens to it later does not matter.
A larger one is mapped, so that the operating system loads the pages that are used and drops them when memory is short;
`check_mapped` tells whether it has been changed since, and one that is cut short ends the process with a sentence.
"""

import ctypes
import hashlib
import json
import os
import signal
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, load_file
from torch import Tensor

from outland.errors import OutlandError, printable
from outland.storage.files import open_regular

IN_MEMORY = 1 << 28  # bytes

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


class Changed(ValueError):
    """A file that is not the one that was written."""


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


def read_tensors(path: Path, sha256: str, most: int) -> dict[str, Tensor]:
    """The tensors of a safetensors file of at most `most` bytes with this checksum; `Changed` if it has another one."""
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise ValueError(f"{path.name} is larger than {most:,} bytes")
        if size <= IN_MEMORY:
            content = stream.read(size)
            _check(hashlib.sha256(content).hexdigest(), sha256, path)
            return load(content)
        before = _identity(os.fstat(stream.fileno()))
        tensors = load_file(path)  # whose header is then of a file of this size
        _check(hashlib.file_digest(stream, "sha256").hexdigest(), sha256, path)
        if _identity(path.lstat()) != before:
            raise Changed(f"{path.name} is being written to")
    if tensors:
        mapped = _Mapped(path, sha256, before, [weakref.ref(tensor) for tensor in tensors.values()])
        _mapped[:] = [*(file for file in _mapped if file.is_used), mapped]
        _end_in_a_sentence()
    return tensors


def check_mapped() -> None:
    """An error if a file whose tensors are in use has been changed since it was mapped: results would rest on both."""
    for file in _mapped:
        if file.is_used and file.is_changed:
            raise OutlandError(
                f"{file.path} was changed while it was in use, and results would rest on both: start again; "
                "what is damaged is prepared anew"
            )


@dataclass(frozen=True)
class _Mapped:
    path: Path
    sha256: str
    identity: tuple[int, ...] | None
    tensors: list[weakref.ref[Tensor]]

    @property
    def is_used(self) -> bool:
        return any(tensor() is not None for tensor in self.tensors)

    @property
    def is_changed(self) -> bool:
        return _identity(self.path.lstat() if os.path.lexists(self.path) else None) != self.identity


_mapped: list[_Mapped] = []  # the files that this process has mapped
_handlers: list[Any] = []  # what C calls must not be collected


@cache
def _end_in_a_sentence() -> None:
    """Let a read beyond the end of a mapped file end this process with a sentence, where it would be a bus error.

    The handler is the C library's: one of Python's runs after the instruction that failed, which never ends.
    """
    if not hasattr(signal, "SIGBUS"):
        return
    kind, libc = ctypes.CFUNCTYPE(None, ctypes.c_int), ctypes.CDLL(None)
    libc.signal.restype, libc.signal.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]

    def end(number: int) -> None:
        for file in _mapped:
            if file.is_changed:
                reason = f"outland: {file.path} was cut short while it was in use: start again; it is prepared anew\n"
                os.write(2, printable(reason).encode(errors="replace"))
                os._exit(2)
        libc.signal(number, before)  # another's fault, which happens again when this returns

    handler = kind(end)
    _handlers.append(handler)
    before = libc.signal(signal.SIGBUS, ctypes.cast(handler, ctypes.c_void_p))


def _check(actual: str, expected: str, path: Path) -> None:
    if actual != expected:
        raise Changed(f"{path.name} is not what it was")


def _identity(status: os.stat_result | None) -> tuple[int, ...] | None:
    """What changes with every change of a file."""
    return None if status is None else (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
