"""What is printed is text: no control characters of strangers, no markup."""

from rich.table import Table

from outland.progress import echo, say, screen

HOSTILE = "\x1b]0;owned\x07[/b]\x1b[2J\x9b31m\u202e\r"


def test_cells_titles_and_lines_carry_no_commands(capsys):
    table = Table("name", HOSTILE, title=HOSTILE, caption=HOSTILE)
    table.add_row("x", HOSTILE)
    shown = screen(soft_wrap=True, force_terminal=True, color_system=None)
    shown.print(table)
    shown.print(HOSTILE, highlight=False)
    echo(HOSTILE)
    echo(HOSTILE, err=True, fg="red")
    say(HOSTILE)
    printed = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\r"} & set(printed.out + printed.err)
    assert printed.out.count("[/b]?[2J?") == 6
    assert printed.err.count("[/b]?[2J?31m") == 2


def test_colours_of_our_own_stay(capsys):
    shown = screen(force_terminal=True, color_system="standard", highlight=False)
    shown.print("red", style="red")
    shown.print("\x1b[31mnot red")
    assert capsys.readouterr().out == "\x1b[31mred\x1b[0m\n?[31mnot red\n"


def test_long_lines_are_printed_whole(capsys):
    echo("a" * 5000 + "\nb")
    assert capsys.readouterr().out == "a" * 5000 + "\nb\n"
