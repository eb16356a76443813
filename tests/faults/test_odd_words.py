"""Commands with words and surroundings that are out of range: a sentence, within ten seconds and a gigabyte."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outland.errors import OutlandError
from outland.estimators import GraphClassifier
from tests.faults import children
from tests.faults.harness import bounded, limited, status, told

pytestmark = pytest.mark.faults
TRAIN = ["train", "motif", "--method", "erm", "--device", "cpu"]
TABLE = str(children.TABLE)
WORDS = {
    "seed 2^64": ([*TRAIN, "--seed", str(2**64)], "run.seed must be at most 9223372036854775807"),
    "seed -1": ([*TRAIN, "--seed", "-1"], "run.seed must be at least 0"),
    "data.seed": ([*TRAIN, "--set", f"data.seed={2**70}"], "data.seed must be at most"),
    "data.seed 2^33": ([*TRAIN, "--set", f"data.seed={2**33}"], "data.seed must be at most 4294967295"),
    "seed of a dataset": (["data", "show", "motif", "--seed", str(2**70)], "--seed"),
    "shard": (["study", "covariate", "--shard", f"1/{'9' * 5000}"], "is not a shard"),
    "width 1e30": ([*TRAIN, "--set", "backbone.width=1e30"], "backbone.width must be from 1 to 8192"),
    "width 10^9": ([*TRAIN, "--set", "backbone.width=1000000000"], "backbone.width must be from 1 to 8192"),
    "epochs 1e30": ([*TRAIN, "--set", "train.epochs=1e30"], "train.epochs must be at most"),
    "heads": ([*TRAIN, "--set", "backbone.heads=99999999"], "backbone.heads must be from 1 to 1024"),
    "lr nan": ([*TRAIN, "--set", "method.lr=nan"], "method.lr"),
    "lr inf": ([*TRAIN, "--set", "method.lr=inf"], "method.lr"),
    "limit -3": (["study", "covariate", "--limit", "-3"], "data.limit must be at least 1"),
    "device mps": (["train", "motif", "--device", "mps"], "does not compute on 'mps'"),
    "device meta": (["train", "motif", "--device", "meta"], "does not compute on 'meta'"),
    "device x": (["train", "motif", "--device", "x"], "unknown device 'x'"),
    "cpus -1": (
        ["study", "covariate", "--engine", "ray", "--cpus", "-1"],
        "--cpus.*(equal to 0|in the range)",
    ),
    "gpus -1": (
        ["study", "covariate", "--engine", "ray", "--gpus", "-1"],
        "--gpus.*(equal to 0|in the range)",
    ),
    "workers 0": (["study", "covariate", "--workers", "0"], "must be 1 or more"),
    "seeds": ([*TRAIN, "--seeds", "-1"], "greater than or equal to 1|not in the range"),
    "seeds 10^9": ([*TRAIN, "--seeds", str(10**9)], "less than or equal to 10000|not in the range"),
    "seeds of a study": (["study", "covariate", "--seeds", str(10**9)], "number of seeds must be 1 to 10,000"),
    "workers 10^6": (
        ["tune", "motif", "--method", "erm", "--device", "cpu", "--workers", str(10**6)],
        "at most 1,024 processes can work at a time",
    ),
    "time": (["study", "covariate", "--time-budget", "-1s"], "is not a duration"),
}


def surrounded(surroundings, words, log, cache) -> None:
    """A command among other environment variables."""
    os.environ.update(surroundings)
    children.command(words, log, cache)


def ended(words, tmp_path, cache, **surroundings):
    """The exit status of a command and what it said, on one line."""
    log = tmp_path / "log"
    os.chdir(tmp_path)
    code = status(limited, surrounded, surroundings, [*words], log, cache.folder)
    return code, " ".join(told(log).split())


@pytest.mark.parametrize("name", WORDS)
def test_numbers_out_of_range(name, motif, cache, tmp_path, monkeypatch, tally):
    monkeypatch.chdir(tmp_path)
    words, sentence = WORDS[name]
    code, said = ended(words, tmp_path, cache)
    assert code == 2, said
    assert re.search(sentence, said), said
    tally("inputs", "numbers out of range")


@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK", "LOCAL_RANK"])
def test_surroundings_that_are_no_numbers(name, motif, cache, tmp_path, monkeypatch, tally):
    monkeypatch.chdir(tmp_path)
    if name == "LOCAL_RANK":
        monkeypatch.setenv(name, "x")
        from outland.distributed import local_rank

        with pytest.raises(OutlandError, match="LOCAL_RANK is 'x'"):
            local_rank()
        return
    for wrong in ("x", "-1", "9" * 30):
        surroundings = {"WORLD_SIZE": "2", "RANK": "0", name: wrong}
        code, said = ended(TRAIN, tmp_path, cache, **surroundings)
        assert code == 2, said
        assert f"the environment variable {name} is '{wrong}'" in said
    tally("inputs", "numbers out of range", 3)


def test_a_partner_that_never_comes(motif, cache, tmp_path, monkeypatch, tally):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    alone = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    code, said = ended(TRAIN, tmp_path, cache, **alone, OUTLAND_MEETING_SECONDS="7")
    assert code == 2, said
    assert "this process waits for the others of 2, for up to 7 s" in said
    assert "did not meet within 7 s" in said
    tally("faults", "partners that never come")


def test_a_generator_as_random_state(tally):
    import numpy as np

    smiles, labels = ["CCO", "CCN", "CCC", "c1ccccc1O", "c1ccccc1N", "c1ccccc1C"] * 2, [0, 0, 0, 1, 1, 1] * 2

    def fitted(random_state):
        how = {"domain": "random", "validation": 0.4, "epochs": 1, "backbone": {"width": 8, "layers": 2}}
        return GraphClassifier("erm", **how, random_state=random_state).fit(smiles, labels).predict_proba(["CCCl"])

    with bounded():
        assert (fitted(np.random.RandomState(0)) == fitted(np.random.RandomState(0))).all()
    for wrong in ("x", -1, 2**64, np.random.default_rng(0), 1.5):
        with pytest.raises((OutlandError, ValueError), match="random_state"), bounded():
            fitted(wrong)
    tally("inputs", "numbers out of range", 6)


INTERRUPTED = """
import sys, time
from outland.workers import map_ordered
from outland.errors import counted
if __name__ == "__main__":
    print("begun", flush=True)
    try:
        for _ in map_ordered(counted_slowly, range(8), 2): pass
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def test_an_interrupt_while_workers_import(tmp_path, tally):
    """Ctrl-C goes to the whole group; workers that are still importing must not die of it with a traceback."""
    script = "from tests.faults.children import sleeping as counted_slowly\n" + INTERRUPTED
    for wait in (0.3, 1.0):
        child = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        time.sleep(wait)
        os.killpg(child.pid, signal.SIGINT)
        said, errors = child.communicate(timeout=60)  # 4 s on idle cores: three processes import
        assert "Traceback" not in errors, errors
        assert said == "stopped\n"
    tally("faults", "interrupts while workers import", 2)


def test_an_interrupt_of_a_command_is_a_word(motif, cache, tmp_path, monkeypatch, tally):
    monkeypatch.chdir(tmp_path)
    assert status(limited, interrupted, ["list", "methods"], tmp_path / "log") == 130
    told(tmp_path / "log")  # no traceback
    tally("faults", "interrupts")


def interrupted(words, log) -> None:
    """A command that is interrupted in its middle."""
    import outland.cli.lists

    def methods():
        raise KeyboardInterrupt

    outland.cli.lists.methods = methods
    children.command(words, log, log.parent / "cache")


def test_what_nobody_thought_of_is_a_sentence(tmp_path, tally):
    for problem, code, sentence in (
        (ZeroDivisionError("x"), 1, r"this should not have happened \(ZeroDivisionError: x\)"),
        (MemoryError(), 2, "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 2, "not enough memory"),
        (RecursionError(), 1, "nested too deeply"),
        (OSError(28, "No space left on device", "/x"), 2, "/x: No space left on device"),
    ):
        ended = status(limited, raising, problem, ["list", "methods"], tmp_path / "log")
        assert (ended, bool(re.search(sentence, told(tmp_path / "log")))) == (code, True)
    tally("faults", "errors nobody thought of", 5)


def raising(problem, words, log) -> None:
    """A command in which something goes wrong."""
    import outland.cli.lists

    def methods():
        raise problem

    outland.cli.lists.methods = methods
    children.command(words, log, log.parent / "cache")
