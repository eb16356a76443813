"""Triton's interpreter, made quicker."""

from importlib.util import find_spec

import pytest


@pytest.fixture(scope="package", autouse=True)
def language_patched_once_a_launch():
    """The interpreter puts its functions into Triton's language anew at each call within a kernel: half its time."""
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("triton") is not None:
            from triton.runtime import interpreter

            patch_once_a_launch(interpreter, patch)
        yield


def patch_once_a_launch(interpreter, patch) -> bool:
    """Whether the interpreter was made quicker: a Triton with other private names is slower, and still right."""
    try:
        launch, patch_language, done = interpreter.GridExecutor.__call__, interpreter._patch_lang, set()
        languages = (interpreter.tl, interpreter.tl.core)
    except AttributeError:
        return False

    def launched(*given, **named):
        done.clear()
        return launch(*given, **named)

    def patched(function):
        modules = tuple(any(one is module for one in function.__globals__.values()) for module in languages)
        if modules in done:
            return None  # only a launch undoes what it patched
        done.add(modules)
        return patch_language(function)

    patch.setattr(interpreter.GridExecutor, "__call__", launched)
    patch.setattr(interpreter, "_patch_lang", patched)
    return True
