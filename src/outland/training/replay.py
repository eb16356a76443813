"""Programs that are recorded once and then replayed: on a GPU one launch for all their kernels.

A program is a function without arguments that reads and writes tensors which stay where they are. A CUDA graph of it
holds every kernel it launched; replaying that costs the host next to nothing, where launching a thousand small kernels
one by one takes longer than running them.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from outland.methods import Progress

Body = Callable[[], None]


class Recorder:
    """Records the programs of one run, in a queue and a memory pool of its own.

    Args:
        device: where the programs work. Off a GPU a program is simply called again.

    Attributes:
        streams: the run's random numbers, which a recorded program goes on drawing from.
        refused: why a program could not be recorded, if one could not.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.streams: tuple[torch.Generator, ...] = ()
        self.refused: str | None = None
        self._queue = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._pool: object = None

    def each(self, steps: Iterator[None]) -> Iterator[None]:
        """Every step in the run's own queue, and between two steps the caller's.

        The run comes after what was launched before its first step, and before what follows its last; in between the
        two queues do not wait for each other, so that several runs go on at the same time.
        """
        if self._queue is None:
            yield from steps
            return
        outside = torch.cuda.current_stream(self.device)
        self._queue.wait_stream(outside)
        try:
            while True:
                with torch.cuda.stream(self._queue):
                    try:
                        next(steps)
                    except StopIteration:
                        return
                yield
        finally:
            outside.wait_stream(self._queue)

    def record(self, body: Body) -> Body:
        """Something that does what `body` does. It must have been called before, so that all it creates once is there.

        A body that cannot be recorded comes back as it is, and `refused` says why.
        """
        if self._queue is None or self.refused is not None:
            return body
        graph = torch.cuda.CUDAGraph()
        for stream in self.streams:
            graph.register_generator_state(stream)
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._queue):  # type: ignore[arg-type]
                body()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as problem:
            self.refused = str(problem).strip().partition("\n")[0]
            torch.cuda.synchronize(self.device)
            return body
        self._pool = self._pool or graph.pool()
        replay: Body = graph.replay
        return replay


class Questions:
    """Stands in for `Progress` while a step is recorded: remembers what was asked, so that it can be asked again.

    Numbers are tensors that can be set before a replay; conditions decide whether the recording still holds.

    Args:
        now: how far training is while recording.
        device: of the numbers.
    """

    def __init__(self, now: Progress, device: torch.device) -> None:
        self._now, self._device = now, device
        self._numbers: list[tuple[Callable[[Progress], float], Tensor]] = []
        self._set: list[float] = []
        self._answers: list[tuple[Callable[[Progress], bool], bool]] = []
        self._place = 0

    def rewind(self) -> None:
        """Expect the same questions from the start."""
        self._place = 0
        self._answers.clear()

    def scalar(self, schedule: Callable[[Progress], float]) -> Tensor:
        """What a schedule says, in a tensor that follows it."""
        if self._place == len(self._numbers):
            value = float(schedule(self._now))
            self._numbers.append((schedule, torch.tensor(value, device=self._device)))
            self._set.append(value)
        self._place += 1
        return self._numbers[self._place - 1][1]

    def branch(self, condition: Callable[[Progress], bool]) -> bool:
        """What a condition says, and from now on has to say."""
        answer = condition(self._now)
        self._answers.append((condition, answer))
        return answer

    def hold(self, now: Progress) -> bool:
        """Whether all conditions would be answered the same way now."""
        return all(condition(now) == answer for condition, answer in self._answers)

    def follow(self, now: Progress) -> None:
        """Set the numbers to what their schedules say now."""
        self._now = now
        for place, (schedule, slot) in enumerate(self._numbers):
            value = float(schedule(now))
            if value != self._set[place]:
                slot.fill_(value)
                self._set[place] = value
