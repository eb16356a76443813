"""Archives that are not what they should be: of datasets, and of runs that travel between machines."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outland.datasets.tu import MUTAG, read_archive
from outland.errors import OutlandError
from outland.studies.engines.archives import pack, unpack
from tests.conftest import SAMPLES
from tests.faults.hostile import Tried, damaged, many

pytestmark = pytest.mark.faults


def test_damaged_archives(tmp_path, tally):
    tried, place = Tried(), tmp_path / "MUTAG.zip"
    whole = (SAMPLES / "tu-sample" / "MUTAG.zip").read_bytes()

    @many(200)
    @given(damaged(whole))
    def one(content):
        place.write_bytes(content)
        tried(lambda: MUTAG().read(place))

    one()
    names = ("A", "graph_indicator", "graph_labels", "node_labels")
    numbers = st.lists(
        st.sampled_from(["1", "2", "1, 2", "2, 1", "0", "-1", "9" * 30, "x", "", "1.5", "1, 1"]), max_size=6
    )

    @many(300)
    @given(st.fixed_dictionaries(dict.fromkeys(names, numbers)), st.sampled_from(["", "../", "/", "a/"]))
    def other(members, before):
        with zipfile.ZipFile(place, "w") as archive:
            for name, lines in members.items():
                archive.writestr(f"{before}MUTAG_{name}.txt", "\n".join(lines))
        tried(lambda: read_archive(place, "MUTAG", labelled=True))

    other()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MUTAG.zip"]
    tally("inputs", "archives", tried.inputs)


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("MUTAG_A.txt", "w", force_zip64=True) as stream,
    ):
        for _ in range(1100):
            stream.write(b"1, 1\n" * 200_000)
    with pytest.raises(OutlandError, match="1,100,000,000 bytes"):
        read_archive(tmp_path / "bomb.zip", "MUTAG", labelled=True)


def test_run_archives_of_anything(tmp_path, tally):
    tried, here = Tried(), tmp_path / "here"
    (here / "run" / "model").mkdir(parents=True)
    (here / "run" / "record.json").write_text("{}")
    (here / "run" / "model" / "weights").write_bytes(bytes(700))
    whole, there = pack(here, ["run"]), tmp_path / "deep" / "there"

    @many(200)
    @given(damaged(whole))
    def one(content):
        tried(lambda: unpack(content, there))

    one()
    paths = st.sampled_from(
        ["../x", "../../x", "/tmp/outland-x", "run/../../x", "run", ".", "", "a\x00b", "x" * 300, "~"]
    )
    kinds = st.sampled_from([tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])

    @many(200)
    @given(st.lists(st.tuples(paths | st.text(max_size=8), kinds, paths), max_size=3))
    def other(members):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name, kind, link in members:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, link
                try:
                    archive.addfile(member)
                except (ValueError, UnicodeEncodeError):
                    continue
        tried(lambda: unpack(stream.getvalue(), there))

    other()
    outside = [path for path in tmp_path.rglob("*") if not path.is_relative_to(here) and not path.is_relative_to(there)]
    assert outside == [tmp_path / "deep"]
    assert not Path("/tmp/outland-x").exists()
    assert not [path for path in there.rglob("*") if path.is_symlink()]
    tally("inputs", "run archives", tried.inputs)
