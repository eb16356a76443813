"""The command-line face: reads words, calls the library, prints. Heavy imports wait until a command needs them."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from outland import __version__
from outland.cli import data, models, shift, study, train, tune
from outland.cli.options import Seed, paragraphs, setting_hint
from outland.errors import OutlandError, unknown

app = typer.Typer(
    help="Graph classification that holds up on graphs unlike the training ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
for _command in (train.train, models.fit, models.predict, models.evaluate, models.explain, shift.shift):
    app.command(help=paragraphs(_command))(_command)


def _version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"outland {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for runs and the picture.")] = Path("demo"),
    seed: Seed = 1,
) -> None:
    """Train a small ERM and a small AIA on Motif, compare them, and draw what AIA looks at."""
    from outland.demo import demo as show
    from outland.storage.files import writable_folder

    show(writable_folder(out), seed)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="datasets|methods|backbones|recipes|settings")],
    of: Annotated[
        str | None,
        typer.Argument(metavar="[GROUP|METHOD|RECIPE]", help="Settings of one group or method; or one recipe."),
    ] = None,
) -> None:
    """List what there is; `settings METHOD` or METHOD:PRESET shows a method's own, `recipes NAME` a whole recipe."""
    from rich.console import Console

    from outland.cli import lists

    tables = {"datasets": lists.datasets, "methods": lists.methods, "backbones": lists.backbones}
    named = {"settings": lists.settings, "recipes": lists.recipes}
    if what not in tables | named:
        raise unknown("list", what, [*tables, *named])
    if what in tables and of is not None:
        raise OutlandError(f"only settings and recipes can be asked for by name: outland list settings {of}")
    Console().print(named[what](of) if what in named else tables[what]())


app.command()(study.study)
app.command()(tune.tune)


def main() -> None:
    """Run the command line; what the user can mend is one sentence and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that is not UTF-8 can be printed
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    sys.argv = [sys.argv[0], *_renamed(sys.argv[1:])]
    try:
        sys.exit(app(standalone_mode=False))
    except OutlandError as problem:
        _fail(str(problem))
    except Exception as problem:
        if not hasattr(problem, "exit_code") or not hasattr(problem, "format_message"):
            raise
        _fail(problem.format_message() + _valid_words(problem), problem.exit_code)


def _renamed(words: list[str]) -> list[str]:
    """The words of a command line with options that have other names now; a note says so, for one release."""
    if words[0] not in ("train", "fit", "tune", "data"):
        return words
    if any(word.partition("=")[0] == "--shift" for word in words):
        typer.secho("Note: --shift is now called --domain; the old name will go.", err=True)
    return [re.sub(r"^--shift(?==|$)", "--domain", word) for word in words]


def _valid_words(problem: Any) -> str:
    """The options or commands that a mistyped one could have been."""
    command: Any = getattr(getattr(problem, "ctx", None), "command", None)
    if hasattr(problem, "option_name"):
        options = [name for p in command.params for name in p.opts if name[0] == "-"]
        return f".{setting_hint(problem.option_name, command.name)} Valid options: {', '.join([*options, '--help'])}"
    if hasattr(command, "commands"):
        return f" Valid commands: {', '.join(command.commands)}"
    return ""


def _fail(sentence: str, status: int = 2) -> None:
    typer.secho(f"outland: {sentence}", fg="red", err=True)
    sys.exit(status)
