"""Places that cannot be written to: a sentence, within ten seconds and a gigabyte, and what is there stays."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import outland.cli
from tests.faults import children
from tests.faults.harness import limited, status, told
from tests.faults.test_places import FIT
from tests.faults.test_strangers import tiny  # noqa: F401

pytestmark = pytest.mark.faults
COMMANDS = {
    "a file as parent": (["train", "motif", "--out", "{file}/runs", "--device", "cpu"], "Not a directory|File exists"),
    "no name": ([*FIT, "--out", ".", "--force"], "cannot become a model folder"),
    "no name above": ([*FIT, "--out", "..", "--force"], "cannot become a model folder"),
    "a device": ([*FIT, "--out", "/dev/full", "--force"], "not a model folder"),
    "a long name": ([*FIT, "--out", "a" * 250], "File name too long"),
    "a name that is just too long": ([*FIT, "--out", "a" * 244], "File name too long"),
    "a model whose name is not UTF-8": ([*FIT, "--out", "{file}/\udcff"], "Not a directory|File exists"),
    "a table whose name is not UTF-8": (["train", "\udcff.csv", "--target", "y"], "not in UTF-8|no file|unknown"),
    "a page on a device": (
        ["explain", "{tiny}", str(children.TABLE), "--out", "/dev/full"],
        "exists",
    ),
    "predictions below a file": (
        ["predict", "{tiny}", str(children.TABLE), "--no-shift", "--out", "{file}/x.csv"],
        "Not a directory|File exists",
    ),
    "predictions of a long name": (
        ["predict", "{tiny}", str(children.TABLE), "--no-shift", "--out", "a" * 250 + ".csv"],
        "is too long for a file",
    ),
    "a study below a file": (
        ["study", "covariate", "--only", "ERM/motif-base", "--seeds", "1", "--device", "cpu", "--out", "{file}/x"],
        "Not a directory|File exists",
    ),
    "a search below a file": (
        ["tune", "motif", "--method", "erm", "--trials", "1", "--device", "cpu", "--out", "{file}/x"],
        "Not a directory|File exists",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_places_that_cannot_be_written_to(name, tiny, motif, cache, tmp_path, monkeypatch, tally):  # noqa: F811
    words, sentence = COMMANDS[name]
    (tmp_path / "file").write_text("mine")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    filled = [word.format(file=tmp_path / "file", tiny=tiny) for word in words]
    log = tmp_path / "log"
    ended = status(limited, in_folder, tmp_path / "here", children.command, filled, log, cache.folder)
    assert (ended, bool(re.search(sentence, " ".join(told(log).split())))) == (2, True), told(log)
    assert (tmp_path / "file").read_text() == "mine"
    tally("inputs", "places that cannot be written to")


def in_folder(folder: Path, work, *given) -> None:
    """Do some work in a folder."""
    os.chdir(folder)
    work(*given)


def test_a_listing_on_a_full_device(tmp_path, tally):
    def listing(stream: Path) -> tuple[int, str]:
        log = tmp_path / "log"
        ended = status(limited, to_stream, stream, ["list", "methods"], log)
        return ended, told(log)

    with suppress(FileNotFoundError):
        ended, words = listing(Path("/dev/full"))
        assert ended == 2
        assert "No space left on device" in words
    tally("inputs", "places that cannot be written to")


def to_stream(stream: Path, words: list[str], log: Path) -> None:
    """The command line, whose results go to a device."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
    os.dup2(os.open(stream, os.O_WRONLY), 1)
    sys.argv = ["outland", *words]
    outland.cli.main()
