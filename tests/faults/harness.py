"""Children, often killed. They are forked from one warm server, so that each costs milliseconds and not an import."""

import multiprocessing
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["tests.faults.children"])
PATIENCE = 120.0  # seconds after which a child hangs
SECONDS, BYTES = 10, 10**9  # that a person's mistake may take
REPETITIONS = float(os.environ.get("OUTLAND_FAULTS", "1"))  # 0.05 is `make faults-short`, 10 tries ten times as much


def scaled(count: int) -> int:
    """How often a fault is repeated that is repeated `count` times by default."""
    return max(1, round(REPETITIONS * count))


def some(values: Sequence[Any]) -> Sequence[Any]:
    """The values; the first alone in the short form."""
    return values[:1] if REPETITIONS < 1 else values


def warm_server() -> Any:
    """The server that children are forked from, started where it finds what it is to import; else each imports it."""
    with chdir(Path(__file__).parents[2]):
        forkserver.ensure_running()
    return SERVER


def begin(work: Callable[..., Any], *given: Any, daemon: bool = True) -> Any:
    """A child at work; only one that is no daemon may have children of its own."""
    warm_server()
    child = SERVER.Process(target=work, args=given, daemon=daemon)
    child.start()
    return child


def finish(work: Callable[..., Any], *given: Any, daemon: bool = True) -> float:
    """Let a child do all of its work; seconds that it took."""
    started = time.perf_counter()
    child = begin(work, *given, daemon=daemon)
    child.join(PATIENCE)
    assert child.exitcode == 0, f"the child ended with {child.exitcode}"
    return time.perf_counter() - started


def status(work: Callable[..., Any], *given: Any) -> int:
    """How a child ended."""
    child = begin(work, *given)
    child.join(PATIENCE)
    assert child.exitcode is not None, "the child hangs"
    return int(child.exitcode)


@contextmanager
def bounded(held: int | None = None) -> Iterator[None]:
    """Work that takes less than ten seconds of the CPU and a gigabyte more than `held` bytes, or than is held now."""
    started = sum(os.times()[:4])  # with those of children that have ended
    Path("/proc/self/clear_refs").write_text("5")  # the most so far is what is held now
    held = _memory("VmRSS") if held is None else held
    try:
        yield
    finally:
        seconds, most = sum(os.times()[:4]) - started, _memory("VmHWM") - held
        assert seconds < SECONDS, f"it took {seconds:.1f} s"
        assert most < BYTES, f"it took {most:,} bytes"


def limited(work: Callable[..., Any], *given: Any) -> None:
    """For a child: work within ten seconds and a gigabyte, with all that is imported; beyond that the child ends."""
    addresses = _memory("VmSize") + BYTES  # PyTorch's libraries alone have gigabytes of them
    resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    with bounded(held=0):
        work(*given)


def _memory(name: str) -> int:
    """Bytes of this process, by the name that Linux has for what is counted."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def told(log: Path) -> str:
    """What a command said, which must not be a traceback."""
    words = log.read_text()
    assert "Traceback" not in words, words[-2000:]
    return words


class Killer:
    """Kills children at random moments.

    Args:
        seed: of the moments.

    Attributes:
        kills: how many children died by it; those that had ended before do not count.
    """

    def __init__(self, seed: int) -> None:
        self._random, self.kills = random.Random(seed), 0

    def let(self, longest: float, work: Callable[..., Any], *given: Any) -> bool:
        """Begin some work and kill it within so many seconds; whether it was killed."""
        child = begin(work, *given)
        child.join(self._random.uniform(0, longest))
        child.kill()
        child.join()
        self.kills += child.exitcode == -signal.SIGKILL
        assert child.exitcode in (0, -signal.SIGKILL), f"the child ended with {child.exitcode}"
        return child.exitcode != 0
