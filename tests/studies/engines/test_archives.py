import pytest

from outland.errors import OutlandError
from outland.studies.engines.archives import pack, unpack


def test_archives_bring_runs_over_whole(tmp_path):
    run = tmp_path / "here" / "run"
    (run / "model").mkdir(parents=True)
    (run / "model" / "weights").write_bytes(b"\x00\x01")
    (run / "record.json").write_text("{}")
    (run / ".lock").touch()
    unpack(pack(tmp_path / "here", ["run", "not-there"]), tmp_path / "there")
    assert (tmp_path / "there" / "run" / "model" / "weights").read_bytes() == b"\x00\x01"
    assert sorted(path.name for path in (tmp_path / "there" / "run").iterdir()) == ["model", "record.json"]


def test_an_archive_cannot_write_elsewhere(tmp_path):
    import io
    import tarfile

    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../elsewhere"), io.BytesIO())
    with pytest.raises(OutlandError, match="no part of a run"):
        unpack(stream.getvalue(), tmp_path / "runs")
    assert not (tmp_path / "elsewhere").exists()
