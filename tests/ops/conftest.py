"""Triton's interpreter, made quicker."""

from importlib.util import find_spec

import pytest


@pytest.fixture(scope="package", autouse=True)
def language_patched_once_a_launch():
    """The interpreter puts its functions into Triton's language anew at each call within a kernel: half its time."""
    if find_spec("triton") is None:
        yield
        return
    from triton.runtime import interpreter

    launch, patch_language, done = interpreter.GridExecutor.__call__, interpreter._patch_lang, set()
    languages = (interpreter.tl, interpreter.tl.core)

    def launched(*given, **named):
        done.clear()
        return launch(*given, **named)

    def patched(function):
        modules = tuple(any(one is module for one in function.__globals__.values()) for module in languages)
        if modules in done:
            return None  # only a launch undoes what it patched
        done.add(modules)
        return patch_language(function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter.GridExecutor, "__call__", launched)
        patch.setattr(interpreter, "_patch_lang", patched)
        yield
