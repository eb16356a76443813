"""Estimated seconds of runs on a device, by the measurements for its kind."""

from collections.abc import Callable

import torch

from outland.spec import RunSpec
from outland.studies.durations import calibrate, estimate_seconds
from outland.studies.gpu_costs import calibrate_gpu, gpu_load


def run_cost(device: torch.device) -> Callable[[RunSpec], float]:
    """A function that gives the seconds of a run on the machine of the measurements: an H200, or one CPU core.

    On a GPU these are its seconds among others, which add up; on a CPU they are its own.
    """
    return (lambda spec: gpu_load(spec).seconds) if device.type == "cuda" else estimate_seconds


def run_estimate(device: torch.device) -> Callable[[RunSpec], float]:
    """The same in seconds of this machine, from a moment of training steps."""
    cost, speed = run_cost(device), calibrate_gpu(device) if device.type == "cuda" else calibrate(device)
    return lambda spec: speed * cost(spec)
