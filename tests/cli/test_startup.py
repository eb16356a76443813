"""What `outland train` and `outland study` import: little beyond PyTorch, for every module costs start-up time."""

import pytest

HEAVY = {
    "jinja2",
    "matplotlib",
    "networkx",
    "pandas",
    "scipy.signal",
    "scipy.stats",
    "sklearn",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch_geometric",
    "torchmetrics",
    "transformers",
}


@pytest.fixture
def imported(bare, motif, cache, tmp_path):
    """Heavy modules that commands import where Motif is prepared."""

    def call(*commands: list[str]) -> set[str]:
        for done in bare(*commands, cache=cache.folder):
            assert done.returncode == 0, done.stderr
        return HEAVY & {*(tmp_path / "modules").read_text().split()}

    return call


def test_training_imports_no_heavy_module(imported, tmp_path):
    words = ["train", "motif", "--set", "data.limit=30", "--set", "train.epochs=1", "--set", "backbone.width=8"]
    assert imported([*words, "--device", "cpu"]) == set()
    assert len(list((tmp_path / "runs").glob("*/record.json"))) == 1


def test_a_study_imports_no_heavy_module_before_its_report(imported):
    study = ["study", "covariate", "--only", "erm/motif-base"]
    words = [*study, "--seeds", "1", "--limit", "30", "--epochs", "1", "--set", "backbone.width=8"]
    assert imported([*study, "--dry-run"], [*words, "--shard", "1/1", "--device", "cpu"]) == set()
