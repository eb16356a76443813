"""Programs that are captured once and then replayed: on a GPU as a CUDA graph, one launch for all their kernels.

A program is a function without arguments that reads and writes tensors which stay where they are. A CUDA graph of it
holds every kernel it launched; replaying that costs the host next to nothing, where launching a thousand small kernels
one by one takes longer than running them.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, ClassVar
from weakref import WeakSet

import torch
from torch import Tensor

from outland.methods import Progress

Program = Callable[[], None]
Event = torch.cuda.Event | None  # what the next step of a run waits for, if for anything


def wait_for(steps: Iterator[Event]) -> None:
    """Take all steps of a run that is alone: where the next one waits for the device, so does the host."""
    for event in steps:
        if event is not None:
            event.synchronize()


class CaptureSlot:
    """A CUDA stream and a memory pool, which runs use one after another.

    What one run allocated the next finds in PyTorch's cache, which keeps memory by stream and pool: to ask the driver
    for memory anew would stop all runs for a moment. Streams stay for good, for cuBLAS has tens of megabytes for each.
    """

    _free: ClassVar[list["CaptureSlot"]] = []
    _all: ClassVar[WeakSet["CaptureSlot"]] = WeakSet()
    _lock: ClassVar[Lock] = Lock()

    def __init__(self, device: torch.device) -> None:
        self.device, self.stream = device, torch.cuda.Stream(device)
        self.pool: Any = None
        self._anchor: torch.cuda.CUDAGraph | None = None
        self._all.add(self)

    @classmethod
    def take(cls, device: torch.device) -> "CaptureSlot":
        """A slot that no run uses, or a new one."""
        with cls._lock:
            slot = next((slot for slot in reversed(cls._free) if slot.device == device), None)
            if slot is not None:
                cls._free.remove(slot)
        slot = slot or cls(device)
        slot._open()
        return slot

    def _open(self) -> None:
        """Have a memory pool."""
        if self._anchor is None:
            self.pool, self._anchor = torch.cuda.graph_pool_handle(), torch.cuda.CUDAGraph()
            counter = torch.zeros((), device=self.device)
            with _capturing(self._anchor, self):  # a pool is given up with its last graph, so one stays
                counter.add_(1)

    def give_back(self) -> None:
        """Let another run use it, once all that was launched is done."""
        with self._lock:
            self._free.append(self)

    @classmethod
    def drop_unused(cls) -> None:
        """Give up the memory of those that no run uses; if there are no others, that of cuBLAS as well.

        The graphs of a run hold addresses of what cuBLAS works in. That is cleared for the whole process, on all
        devices and for others than outland too: graphs that they captured must not be replayed after it. PyTorch has
        no public name for it; where the private one is gone, nothing is cleared.
        """
        with cls._lock:
            for slot in cls._free:
                slot.pool = slot._anchor = None
            if len(cls._free) == len(cls._all):
                getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()


class GraphCapture:
    """Captures the programs of one run, on a CUDA stream and in a memory pool that are its own until `close`.

    Off a GPU a program is simply called again.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.refusal: str | None = None  # why a program could not be captured, if one could not
        self._slot = CaptureSlot.take(device) if device.type == "cuda" else None
        self._graphs: list[torch.cuda.CUDAGraph] = []

    def close(self) -> None:
        """Give stream and memory back; what was captured cannot be replayed any more.

        Graphs end here and all at once, not when the garbage collector comes across them: with each of them PyTorch
        may give up what cuBLAS works in on its stream, where other graphs of that stream still have its address.
        """
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.stream.synchronize()  # graphs must not end before their replays
            for graph in self._graphs:
                graph.reset()
            self._graphs.clear()
            if self.refusal is None:  # a capture that failed may have left its pool unfinished
                slot.give_back()

    def on_stream(self, steps: Iterator[Event]) -> Iterator[Event]:
        """Advance `steps` on the run's own CUDA stream; the caller's stream is current in between.

        The run comes after what was launched before its first step, and before what follows its last; in between the
        two streams do not wait for each other, so that several runs go on at the same time.
        """
        if self._slot is None:
            yield from steps
            return
        outside, stream = torch.cuda.current_stream(self.device), self._slot.stream
        stream.wait_stream(outside)
        try:
            while True:
                torch.cuda.set_stream(stream)  # which takes a fifth of the time of the context manager
                try:
                    event = next(steps)
                except StopIteration:
                    return
                finally:
                    torch.cuda.set_stream(outside)
                yield event
        finally:
            outside.wait_stream(stream)

    def capture(self, program: Program, generators: Sequence[torch.Generator] = ()) -> Program:
        """A replay of `program`, which must have been called before, so that all it creates once is there.

        It may draw from `generators`; each costs two launches a replay. A program that cannot be captured is returned
        as it is, and `refusal` says why.
        """
        if self._slot is None or self.refusal is not None:
            return program
        graph = torch.cuda.CUDAGraph()
        self._graphs.append(graph)
        for generator in generators:
            graph.register_generator_state(generator)
        try:
            with _capturing(graph, self._slot):
                program()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as problem:
            self.refusal = str(problem).strip().partition("\n")[0]
            torch.cuda.synchronize(self.device)
            return program
        replay: Program = graph.replay
        return replay


class CapturedProgram:
    """A program without random draws that is captured after its first call; without a `capture` it is called anew."""

    def __init__(self, program: Program, capture: GraphCapture | None) -> None:
        self._program, self._capture = program, capture

    def __call__(self) -> None:
        """Run the program, without waiting for the device."""
        self._program()
        if self._capture is not None:
            self._program, self._capture = self._capture.capture(self._program), None


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph, slot: CaptureSlot) -> Iterator[None]:
    """As `torch.cuda.graph`, which also waits for the device, collects garbage and empties PyTorch's cache.

    All three would stop the runs beside this one. Garbage is not collected while a capture lasts, for it may hold
    graphs of other runs, whose release is not allowed then.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.stream(slot.stream):
            graph.capture_begin(slot.pool, capture_error_mode="thread_local")
            try:
                yield
            finally:
                graph.capture_end()
    finally:
        if collects:
            gc.enable()


class CapturedProgress:
    """Stands in for `Progress` while a step is captured, and remembers its schedules and conditions.

    Scalars become tensors that are set before a replay; branches decide whether the capture is still valid.
    """

    def __init__(self, now: Progress, device: torch.device) -> None:
        self._now, self._device = now, device
        self._scalars: list[tuple[Callable[[Progress], float], Tensor]] = []
        self._values: list[float] = []
        self._branches: list[tuple[Callable[[Progress], bool], bool]] = []
        self._position = 0

    def rewind(self) -> None:
        """Expect the same calls again from the first."""
        self._position = 0
        self._branches.clear()

    def scalar(self, schedule: Callable[[Progress], float]) -> Tensor:
        """The value of a schedule, in a 0-dim tensor that `update` sets."""
        if self._position == len(self._scalars):
            value = float(schedule(self._now))
            self._scalars.append((schedule, torch.tensor(value, device=self._device)))
            self._values.append(value)
        self._position += 1
        return self._scalars[self._position - 1][1]

    def branch(self, condition: Callable[[Progress], bool]) -> bool:
        """The value of a condition, which must stay the same for the capture to be valid."""
        value = condition(self._now)
        self._branches.append((condition, value))
        return value

    def is_valid(self, now: Progress) -> bool:
        """Whether all conditions still have the values they were captured with."""
        return all(condition(now) == value for condition, value in self._branches)

    def update(self, now: Progress) -> None:
        """Set the scalars to the values of their schedules now."""
        self._now = now
        for position, (schedule, slot) in enumerate(self._scalars):
            value = float(schedule(now))
            if value != self._values[position]:
                slot.fill_(value)
                self._values[position] = value
