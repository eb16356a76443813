"""Names of many parts in a recipe: found wherever they stand, and not seen in strings, comments and numbers."""

import time

import pytest

from outland.errors import OutlandError
from outland.recipes import find_recipe

LONG = ".".join(["a"] * 200)
VALUES = [
    '"#"',
    "'\"'",
    r'"\""',
    r'"\\"',
    '""',
    "''",
    '"""\n"""""',
    "'''\n''''",
    '"""\\"""\n"""',
    "1.5",
    "['#', \"'\"]",
]
COMMENTS = ["", ' # "', " # '''", ' # """', " # \\"]


def found(tmp_path, text):
    (tmp_path / "mine.toml").write_text(text)
    return find_recipe(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("comment", COMMENTS)
def test_nothing_hides_a_name_of_many_parts(tmp_path, value, comment):
    for name in (
        f"{LONG} = 1",
        f"[{LONG}]",
        f"x = {{ {LONG} = 1 }}",
        f"'' . \"\" . {LONG} = 1",
        f"x = [{{ {LONG} = 1 }}]",
    ):
        with pytest.raises(OutlandError, match=r"mine.toml: more than 100 dots in the names of a line; write \[common"):
            found(tmp_path, f"y = {value}{comment}\n{name}")


def test_many_names_of_few_parts_in_a_line_are_not_too_deep(tmp_path):
    with pytest.raises(OutlandError, match="more than 100 dots in the names of a line"):
        found(tmp_path, "x = " + "{ a.b.c = " * 60 + "1" + " }" * 60)


@pytest.mark.parametrize("start", ['x = """', "x = '''", 'x = "', "x = '", "#", "x = "])
@pytest.mark.parametrize("part", ['\\"""', '"', "'", "a", "\\", '"""', "#\n", "'''\n", '""\n'])
def test_strings_without_end_take_no_time(tmp_path, start, part):
    text = start + part * (1_000_000 // len(part)) + "\\"
    started = time.process_time()
    with pytest.raises(OutlandError):
        found(tmp_path, text)
    assert time.process_time() - started < 5


def test_dots_elsewhere_are_no_names(tmp_path):
    words, numbers = "..." * 100, ", ".join(["0.5"] * 300)
    lines = ["datasets = []", f'about = "{words}" # {words}', f"# {words}", "[expected.motif]", f"erm = [{numbers}]"]
    lines += ["[common.train]", f'epochs = {{ value = 1, source = """{words}"""}}']
    recipe = found(tmp_path, "\n".join([*lines, f"lr = {{ value = 0.1, source = '{words}' }}"]))
    assert (recipe.about, len(recipe.expected["motif"]["erm"])) == (words, 300)
