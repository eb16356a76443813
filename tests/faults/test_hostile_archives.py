"""Archives that are not what they should be: of datasets, and of runs that travel between machines."""

import io
import json
import lzma
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outland.datasets.tu import MUTAG, read_archive
from outland.errors import OutlandError
from outland.studies import find_study
from outland.studies.engines.archives import pack, unpack
from outland.studies.runner import run_study
from outland.studies.transfer import export_records, import_records
from tests.conftest import SAMPLES
from tests.faults.hostile import Tried, altered, damaged, many, odd

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


def test_files_of_records_of_anything(motif, cache, tmp_path, tally):
    tried, file, there = Tried(), tmp_path / "records.jsonl.xz", tmp_path / "there"
    study = find_study("covariate")
    cells = study.cells(1, ["train.epochs=2", "data.limit=24", "backbone.width=8"], ["ERM/motif-base"])
    run_study(study, cells, tmp_path, device="cpu", cache=cache)
    export_records(tmp_path, file)
    whole = file.read_bytes()
    header, line = lzma.decompress(whole).splitlines()

    @many(200)
    @given(damaged(whole))
    def one(content):
        file.write_bytes(content)
        assert tried(lambda: import_records(file, there)) is None or content == whole

    @many(300)
    @given(altered(json.loads(line)) | odd)
    def other(run):
        shutil.rmtree(there, ignore_errors=True)
        file.write_bytes(lzma.compress(header + b"\n" + json.dumps(run).encode() + b"\n"))
        tried(lambda: import_records(file, there))
        assert {path.name for path in there.glob("*/*")} <= {cells[0].specs[0].slug}

    one()
    other()
    assert sorted(path.name for path in tmp_path.iterdir() if path != there) == ["records.jsonl.xz", "runs"]
    tally("inputs", "files of records", tried.inputs)


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
