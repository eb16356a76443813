import pytest

from outland.training.checkpoint import Checkpoints
from tests.training.cases import trainer


@pytest.mark.parametrize("file", ["tensors.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_resume_falls_back_to_the_previous_good_checkpoint(any_splits, tmp_path, file, damage, capsys):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.fit()
    newest = tmp_path / "epoch-00003" / file
    content = bytearray(newest.read_bytes())
    if damage == "cut":
        content = content[:-30]
    else:
        content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    again = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    assert again.resume() == 2
    assert "looking for the one before" in " ".join(capsys.readouterr().err.split())
    again.fit()
    assert again.curves == run.curves


def test_checkpoints_keep_the_two_newest_and_none_intact_is_an_error(any_splits, tmp_path):
    run = trainer(any_splits, checkpoints=Checkpoints(tmp_path))
    run.fit()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch-00002", "epoch-00003"]
    for path in tmp_path.glob("*/state.json"):
        path.write_text("{}")
    with pytest.raises(Exception, match=r"no checkpoint in .* is intact"):
        trainer(any_splits, checkpoints=Checkpoints(tmp_path)).resume()
