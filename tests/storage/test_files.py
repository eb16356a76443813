import os

import pytest
import torch

from outland.storage.files import remove_scratch, scratch_path, write_text
from outland.storage.snapshots import Snapshot, write_snapshot


@pytest.mark.parametrize(("umask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_what_is_written_has_the_rights_that_the_umask_gives(tmp_path, umask, file, folder):
    previous = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "words")
        for _ in range(2):  # new, and replacing an old one
            write_snapshot(tmp_path / "model", Snapshot({"x": torch.ones(2)}, {}))
    finally:
        os.umask(previous)
    rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert rights.pop("model") == folder
    assert set(rights) == {"a.txt", "state.json", "tensors.safetensors"}  # and nothing half-written is left
    assert set(rights.values()) == {file}


def test_only_what_was_half_written_is_swept(tmp_path):
    mine = [".a.csv.swp", ".a.csv.bak", ".a.csv.gz.0123456789ab", "a.csv", ".b.csv.0123456789ab"]
    for name in mine:
        (tmp_path / name).write_text("mine")
    scratch_path(tmp_path / "a.csv").write_text("half")
    scratch_path(tmp_path / "epoch-00001").mkdir()
    remove_scratch(tmp_path, "a.csv", "epoch-*")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)
