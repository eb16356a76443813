"""What makes the tests quick leaves them right."""

import gc
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.ops.conftest import patch_once_a_launch


@pytest.mark.parametrize("hook", [conftest.pytest_runtestloop, conftest.pytest_unconfigure])
def test_garbage_is_collected_again_once_tests_run_or_end(hook):
    gc.disable()
    try:
        hook()
        assert gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("missing", ["GridExecutor", "_patch_lang", "tl"])
def test_a_triton_with_other_private_names_is_left_as_it_is(missing, monkeypatch):
    names = {"GridExecutor": type("GridExecutor", (), {"__call__": print}), "_patch_lang": print}
    names["tl"] = SimpleNamespace(core=SimpleNamespace())
    del names[missing]
    interpreter = SimpleNamespace(**names)
    assert not patch_once_a_launch(interpreter, monkeypatch)
    assert vars(interpreter) == names
