"""The file in which records travel."""

import json
import lzma
import math
import os

import numpy as np
import pytest

from outland.errors import OutlandError
from outland.studies import record_file
from outland.studies.record_file import format_line, from_columns, parse_line, read_lines, to_columns, write_lines


def rows(count: int = 100):
    """Curves as training gives them: 32-bit numbers, one 64-bit number, a missing one, nothing, whole numbers."""
    random = np.random.default_rng(0)
    return [
        {
            "epoch": epoch,
            "loss": {"risk": float(np.float32(random.random())), "penalty": float(random.random())},
            "diagnostics": {},
            "val": {"rocauc": None if epoch == 3 else float(np.float32(random.random())), "ap": 1.0},
            "unaveraged": {"val": {"rocauc": float(np.float32(1e-7 * random.random()))}},
        }
        for epoch in range(count)
    ]


def test_columns_are_the_curves_to_the_bit_in_half_the_bytes():
    columns = json.loads(json.dumps(to_columns(rows())))
    assert json.dumps(from_columns(columns)) == json.dumps(rows())  # also the order of names
    kinds = {"/".join(column[0]): column[2:] for column in columns}
    assert kinds["loss/risk"] == kinds["val/rocauc"] == kinds["unaveraged/val/rocauc"] == ["float32"]
    assert kinds["loss/penalty"] == kinds["epoch"] == kinds["diagnostics"] == []
    assert len(json.dumps(columns)) < 0.5 * len(json.dumps(rows()))


@pytest.mark.parametrize(
    "curves",
    [
        [],
        [{}],
        [{"epoch": 0}, {"epoch": 1, "loss": {}}],
        [{"a": {"b": {"c": {"d": 1.0}}}}],
        [{"loss": {"risk": value}} for value in (0.5, -0.0, 1e300, -math.inf, 5e-324)],
        [{"loss": {"risk": value}} for value in (float(np.float32(0.1)), math.nan, math.inf, 3)],
    ],
)
def test_curves_of_any_form_come_back(curves):
    assert json.dumps(from_columns(json.loads(json.dumps(to_columns(curves))))) == json.dumps(curves)


@pytest.mark.parametrize(
    "columns",
    [
        3,
        [[["a"], [1, 2]], [["b"], [1]]],
        [[["a"] * 900, [1] * 900]],
        [[[], [1]]],
        [[["a"], [1]], [["a", "b"], [1]]],
        [[["a"], 10**9]],
        [["a"], {"b": 1}],
        [[[["x"]], [1]]],
    ],
)
def test_columns_that_do_not_fit_together_are_refused_and_nothing_grows(columns):
    with pytest.raises((ValueError, TypeError, AttributeError, IndexError)):
        from_columns(columns)


def test_the_same_runs_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        lines = [format_line({"curves": to_columns(rows())}), format_line({"key": "ü"})]
        write_lines(tmp_path / "new" / name, lines)
    assert (tmp_path / "new" / "one").read_bytes() == (tmp_path / "new" / "two").read_bytes()
    lines = [parse_line(line) for line in read_lines(tmp_path / "new" / "one")]
    assert [list(line) for line in lines] == [["curves"], ["key"]]
    assert [path.name for path in sorted((tmp_path / "new").iterdir())] == ["one", "two"]


def packed(*lines: str) -> bytes:
    return lzma.compress("".join(f"{line}\n" for line in lines).encode())


HEADER = {"format": "outland records", "version": 1, "outland": "0", "results": record_file.RESULTS, "runs": 1}
WHOLE = packed(json.dumps(HEADER), "{}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "cut short"),
        (b"not xz at all", "not an intact file"),
        (WHOLE[:-5], "cut short"),
        (WHOLE[:40] + bytes([WHOLE[40] ^ 1]) + WHOLE[41:], "not an intact file"),
        (WHOLE + b"more", "something follows its end"),
        (WHOLE + WHOLE, "something follows its end"),
        (lzma.compress(b""), "not an intact file"),
        (lzma.compress(b"{}"), "something follows its end|no header"),
        (packed("[]"), "no header"),
        (packed("[" * 100_000), "nested too deeply"),
        (packed(json.dumps(HEADER)), "it holds 0 runs, not the 1"),
        (packed(json.dumps(HEADER), "{}", "{}"), "it holds 2 runs, not the 1"),
        (packed(json.dumps({**HEADER, "version": 9})), "another version of outland"),
        (packed(json.dumps({**HEADER, "results": 9})), "holds results of version 9, and this outland gives version"),
        (lambda: packed(json.dumps(HEADER), " " * (record_file.MAX_LINE + 1)), "larger than any file of records"),
        (lambda: lzma.compress(bytes(200 << 20), preset=0), "larger than any file of records"),
        (lambda: lzma.compress(b"\n" * (record_file.MAX_RUNS + 2)), "no header|larger than any file of records"),
        (lzma.compress(b"{}\n", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 29}]), "not an intact file"),
    ],
)
def test_a_file_that_is_not_whole_or_too_large_gives_nothing_but_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "records.jsonl.xz"
    path.write_bytes(content() if callable(content) else content)
    with pytest.raises(OutlandError, match=sentence):
        next(read_lines(path))


def test_only_a_regular_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OutlandError, match="is not a file of records"):
            next(read_lines(tmp_path / name))
    with pytest.raises(OutlandError, match="there is no file"):
        next(read_lines(tmp_path / "nothing"))


def test_a_run_that_no_import_would_take_is_not_exported(tmp_path):
    with pytest.raises(ValueError, match="it has 1,048,586 bytes, and at most 1,048,576 travel"):
        format_line({"key": "x" * record_file.MAX_LINE})
    with pytest.raises(OutlandError, match="at most 100,000 runs"):
        write_lines(tmp_path / "file", ["{}"] * 100_001)
    assert not (tmp_path / "file").exists()
