"""The device a run computes on, and the threads of a CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from outland.errors import OutlandError, counted

_BUSY = 1.4  # threads at work for each core


@contextmanager
def one_thread() -> Iterator[None]:
    """Run with one intra-op thread: small tensors gain nothing from a second, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def busy_cores_note(device: torch.device, cores: int) -> str:
    """What to do where other processes use the cores of a CPU: threads of small tensors wait for each other there."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1 or not hasattr(os, "getloadavg"):
        return ""
    load = os.getloadavg()[0]  # of the last minute
    if load + threads <= _BUSY * cores:
        return ""
    return (
        f"This machine has been busy (load {load:.1f} on {counted(cores, 'core')}): if other processes go on, "
        "training may be several times faster with OMP_NUM_THREADS=1 in the environment"
    )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run with one thread for the products of NumPy and SciPy: more wait for each other where cores are shared.

    A fit of 200 rows beside other work takes twice the processor time without it, for L-BFGS on a few numbers.
    """
    import scipy.linalg  # noqa: F401  SciPy has a BLAS of its own, which is limited only if it is loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


def find_device(name: str) -> torch.device:
    """The device of that name, if it is here."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OutlandError(f"unknown device '{name}'. Valid: auto, cpu, cuda, cuda:0, ...") from None
    if device.type not in ("cpu", "cuda"):
        raise OutlandError(f"outland does not compute on '{device.type}'. Valid: auto, cpu, cuda, cuda:0, ...")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OutlandError("there is no CUDA device here; use --device cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise OutlandError(f"there are {counted(torch.cuda.device_count(), 'CUDA device')} here, numbered from 0")
    return device
