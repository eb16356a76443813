"""A hundred thousand mutations of what strangers may hand us, counted by class: a result or a sentence, and soon."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from outland.datasets.superpixels import read_published
from outland.errors import OutlandError
from outland.estimators import GraphClassifier
from outland.graphs import Cache
from outland.models.card import card
from outland.models.table_predictions import predict_table
from outland.recipes import _read as read_recipe
from outland.report.advice import advise
from outland.report.summaries import prediction_lines
from outland.storage.snapshots import read_snapshot
from outland.studies import find_study
from outland.studies.search import Search
from outland.studies.transfer import FinishedRun, import_records
from outland.studies.tuned import with_tuned_settings
from outland.training import RunRecord, RunSpec
from tests.faults.fuzzing import fuzz, mutated_bytes, mutated_json, mutated_tensors
from tests.faults.hostile import sealed
from tests.faults.test_strangers import checkpointed, finished, tiny  # noqa: F401
from tests.graphs.test_cache import KEY, toy
from tests.studies.cases import SEARCHED, fake_run

pytestmark = pytest.mark.faults


def refused_values(work):
    """Work whose `ValueError`s are refusals: its callers make sentences of them."""

    def checked():
        try:
            return work()
        except ValueError as problem:
            raise OutlandError(f"refused: {problem}") from None

    return checked


def resealed(chance, saved, folder, tensors):
    """Mutate values or tensors of a snapshot and seal it; NaN, which cannot be sealed, is left out."""
    values = mutated_json(chance, saved.values) if chance.random() < 0.6 else saved.values
    changed = mutated_tensors(chance, saved.tensors) if values is saved.values else None
    try:
        sealed(folder, values, tensors if changed is None else save(changed))
    except (UnicodeEncodeError, ValueError):
        sealed(folder, saved.values, tensors)


def test_records(finished, tally):  # noqa: F811
    plain = json.loads((finished[2] / "runs" / finished[3] / "record.json").read_text())

    def one(chance):
        changed = mutated_json(chance, plain)
        return refused_values(lambda: RunRecord.from_json(changed))

    tally("inputs", "fuzzed records", fuzz(32_000, one).inputs)


def test_exports(finished, tmp_path, tally):  # noqa: F811
    from outland.studies.transfer import export_records

    file = tmp_path / "x.jsonl.xz"
    export_records(finished[2], file)
    whole = file.read_bytes()
    record = RunRecord.read(finished[2] / "runs" / finished[3] / "record.json")
    plain = json.loads(json.dumps(FinishedRun(finished[1][0].specs[0], record, {}).to_json()))

    def one(chance):
        if chance.random() < 0.9:
            changed = mutated_json(chance, plain)
            return refused_values(lambda: FinishedRun.from_json(changed))
        file.write_bytes(mutated_bytes(chance, whole))
        return lambda: import_records(file, tmp_path / "out")

    tally("inputs", "fuzzed exports", fuzz(26_000, one).inputs)


def test_snapshots(tiny, tmp_path, tally):  # noqa: F811
    folder = Path(shutil.copytree(tiny, tmp_path / "model"))
    whole = {name: (folder / name).read_bytes() for name in ("state.json", "tensors.safetensors", "README.md")}

    def one(chance):
        for name, content in whole.items():
            (folder / name).write_bytes(content)
        name = chance.choice(sorted(whole))
        (folder / name).write_bytes(mutated_bytes(chance, whole[name]))
        return lambda: read_snapshot(folder)

    tally("inputs", "fuzzed snapshots", fuzz(12_000, one).inputs)


def test_models(tiny, tmp_path, tally):  # noqa: F811
    """What is not refused predicts, and says so."""
    saved, table = read_snapshot(tiny), tmp_path / "t.csv"
    content = save(saved.tensors)
    table.write_text("smiles\nCCO\nc1ccccc1O\nno molecule\n")

    def used():
        model = GraphClassifier.load(tmp_path / "model")
        model.search_space()
        report = predict_table(model.model_, table, tmp_path / "out.csv", force=True)
        assert report.rows == 3
        assert advise(model.model_, report)
        assert prediction_lines(model.model_, report)
        assert card(model.model_)

    def one(chance):
        resealed(chance, saved, tmp_path / "model", content)
        return used

    tried = fuzz(4_000, one)
    assert tried.refused > 0.3 * tried.inputs
    tally("inputs", "fuzzed models", tried.inputs)


def test_checkpoints(motif, cache, tmp_path, tally):
    from outland.training.checkpoint import checked_state

    _, folder = checkpointed(tmp_path, cache)
    saved = folder.checkpoints.latest()
    scored = dict.fromkeys(("val", "test"), "accuracy")

    def one(chance):
        values, tensors = saved.values, saved.tensors
        if chance.random() < 0.6:
            values = mutated_json(chance, saved.values)
        else:
            tensors = mutated_tensors(chance, saved.tensors)
        changed = type(saved)(tensors, values if isinstance(values, dict) else {})
        return refused_values(lambda: checked_state(changed, saved, scored, 24))

    tried = fuzz(16_000, one)
    assert tried.refused > 0.3 * tried.inputs
    tally("inputs", "fuzzed checkpoints", tried.inputs)


def test_resumed_checkpoints(motif, cache, tmp_path, tally):
    """The same, all the way: what is not refused trains to its end."""
    from outland.training import run

    spec, folder = checkpointed(tmp_path / "runs", cache)
    newest = folder.checkpoints.newest()
    saved = read_snapshot(newest)
    content = save(saved.tensors)
    keep = Path(shutil.copytree(folder.path, tmp_path / "keep"))

    def one(chance):
        shutil.rmtree(folder.path)
        shutil.copytree(keep, folder.path)
        shutil.rmtree(folder.checkpoints.folder / "epoch-00001", ignore_errors=True)
        resealed(chance, saved, newest, content)
        return lambda: run(spec, tmp_path / "runs", resume=True, device="cpu", cache=cache)

    tally("inputs", "fuzzed checkpoints", fuzz(400, one).inputs)


def test_cache_entries(tmp_path, tally):
    cache = Cache(tmp_path)
    cache.store(KEY, toy())
    saved = read_snapshot(cache.path(KEY))
    content = save(saved.tensors)

    def one(chance):
        resealed(chance, saved, cache.path(KEY), content)

        def work():
            entry = cache.load(KEY)
            return entry.check() if entry is not None else None

        return work

    tally("inputs", "fuzzed cache entries", fuzz(8_000, one).inputs)


def test_journals(tmp_path, monkeypatch, tally):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")
    monkeypatch.setattr("outland.studies.search.run", fake_run(lambda settings, epoch: settings.lr))
    search = Search(RunSpec.make("motif", "erm", changes=SEARCHED), 2, tmp_path)
    search.run_trials()
    journal = search.folder / "journal.log"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]

    def one(chance):
        changed = [mutated_json(chance, line) if chance.random() < 2 / len(lines) else line for line in lines]
        journal.write_bytes("".join(json.dumps(line) + "\n" for line in changed).encode(errors="replace"))
        if chance.random() < 0.2:
            journal.write_bytes(mutated_bytes(chance, journal.read_bytes()))

        def work():
            with search.journal() as opened:
                opened.next_trial()
                return opened.trials()

        return work

    tally("inputs", "fuzzed journals", fuzz(1_000, one).inputs)


def test_searches(finished, tmp_path, tally):  # noqa: F811
    cells = find_study("covariate").cells(1, ["train.epochs=1", "data.limit=24"], ["ERM/motif-base"])
    best = {"number": 1, "params": {"lr": 0.01}, "value": 0.5}
    report = {"format": 1, "spec": cells[0].specs[0].to_json(), "budget": 2, "finished": True, "best": best}
    path = tmp_path / "one" / "search.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**report, "trials": [best]}))
    assert with_tuned_settings(cells, tmp_path)[0].specs[0].method_params.lr == 0.01

    def one(chance):
        path.write_bytes(json.dumps(mutated_json(chance, report)).encode(errors="replace"))
        return lambda: with_tuned_settings(cells, tmp_path)

    tally("inputs", "fuzzed searches", fuzz(2_000, one).inputs)


def test_recipes(tally):
    from outland.recipes import _folder

    whole = _folder().joinpath("tu.toml").read_bytes()

    def one(chance):
        text = mutated_bytes(chance, whole).decode(errors="replace")
        return lambda: read_recipe("mine.toml", text)

    tally("inputs", "fuzzed recipes", fuzz(400, one).inputs)


def test_superpixels(tmp_path, tally):
    ring = torch.stack([torch.arange(75), torch.arange(75).roll(1)])
    graph = {"x": torch.rand(75, 1), "edge_index": ring, "y": torch.tensor([3])}
    path = tmp_path / "s.pt"
    torch.save(([graph] * 3, [graph]), path)
    assert len(read_published(path)) == 4
    whole = path.read_bytes()

    def one(chance):
        path.write_bytes(mutated_bytes(chance, whole))
        return lambda: read_published(path)

    tally("inputs", "fuzzed superpixels", fuzz(2_000, one).inputs)
