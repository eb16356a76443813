"""One dispatch for numerical primitives: plain PyTorch anywhere, a Triton kernel where it supports the arguments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Generic, ParamSpec, TypeVar, cast

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_forced: bool | None = None


class Op(Generic[P, R]):
    """A primitive with two implementations of one signature; calling it picks one by its arguments.

    `plain` is in PyTorch, for any device and dtype; `path` is the `module:function` of the Triton kernel, imported when
    it is first used. `supports` is what the kernel asks of the arguments, besides `is_supported` of the first one.
    """

    def __init__(
        self,
        plain: Callable[P, R],
        path: str,
        supports: Callable[..., bool] | None = None,
        dtypes: tuple[torch.dtype, ...] = FLOATS,
    ) -> None:
        update_wrapper(self, plain)
        self.plain = plain
        self._path, self._supports, self._dtypes = path, supports, dtypes

    @cached_property
    def kernel(self) -> Callable[P, R]:
        """The Triton implementation."""
        module, name = self._path.split(":")
        return cast(Callable[P, R], getattr(import_module(module), name))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: D102
        first: Any = args[0]
        if is_supported(first, self._dtypes) and (self._supports is None or self._supports(*args, **kwargs)):
            return self.kernel(*args, **kwargs)
        return self.plain(*args, **kwargs)


def op(
    path: str, supports: Callable[..., bool] | None = None, dtypes: tuple[torch.dtype, ...] = FLOATS
) -> Callable[[Callable[P, R]], Op[P, R]]:
    """Decorate a plain implementation: see `Op`."""
    return lambda plain: Op(plain, path, supports, dtypes)


def is_supported(tensor: Tensor, dtypes: tuple[torch.dtype, ...] = FLOATS) -> bool:
    """Whether kernels take this tensor: on a GPU, of these dtypes, indexed by 32 bits, with Triton installed."""
    chosen = tensor.is_cuda if _forced is None else _forced
    return chosen and tensor.dtype in dtypes and tensor.numel() < 2**31 and has_triton()


@contextmanager
def use_kernels(enabled: bool) -> Iterator[None]:
    """Take kernels on every device, as Triton's interpreter allows, or on none."""
    global _forced  # noqa: PLW0603
    before, _forced = _forced, enabled
    try:
        yield
    finally:
        _forced = before


@cache
def has_triton() -> bool:
    """Whether Triton is installed; it comes with PyTorch's builds for NVIDIA GPUs."""
    return find_spec("triton") is not None


@cache
def has_tf32(device: torch.device) -> bool:
    """Whether this GPU multiplies matrices in TF32: NVIDIA's since Ampere."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)
