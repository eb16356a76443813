"""The command-line face: reads words, calls the library, prints. Heavy imports wait until a command needs them."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import Abort

from outland import __version__
from outland.cli import data, fit, models, shift, study, train, tune
from outland.cli.options import Seed, paragraphs, setting_hint
from outland.errors import OutlandError, printable, unknown

app = typer.Typer(
    help="Graph classification that holds up on graphs unlike the training ones.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(data.app, name="data")
for _command in (train.train, fit.fit, models.predict, models.evaluate, models.explain, shift.shift):
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
    """Train a small ERM, AIA and Evidence on Motif, compare them, and draw what AIA and Evidence look at."""
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
    from outland.cli import lists
    from outland.progress import screen

    tables = {"datasets": lists.datasets, "methods": lists.methods, "backbones": lists.backbones}
    named = {"settings": lists.settings, "recipes": lists.recipes}
    if what not in tables | named:
        raise unknown("list", what, [*tables, *named])
    if what in tables and of is not None:
        raise OutlandError(f"only settings and recipes can be asked for by name: outland list settings {of}")
    screen().print(named[what](of) if what in named else tables[what]())


app.command()(study.study)
app.command()(tune.tune)


def main() -> None:
    """Run the command line. Every command ends here: what the user can mend is one sentence and exit status 2.

    What nobody thought of is a sentence too, with exit status 1; `OUTLAND_TRACEBACK=1` shows where it happened.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that is not UTF-8 can be printed
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    sys.argv = [sys.argv[0], *_renamed(sys.argv[1:])]
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status)
    except OutlandError as problem:
        _fail(str(problem))
    except (KeyboardInterrupt, Abort):
        _fail("stopped", 130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _silence(sys.stdout)
        sys.exit(141)
    except Exception as problem:
        if hasattr(problem, "exit_code") and hasattr(problem, "format_message"):
            _fail(problem.format_message() + _valid_words(problem), problem.exit_code)
        if os.environ.get("OUTLAND_TRACEBACK"):
            raise
        _fail(*_last_words(problem))


def _last_words(problem: Exception) -> tuple[str, int]:
    """The sentence and the exit status of an error that is no `OutlandError`."""
    text = " ".join(str(problem).split())
    if isinstance(problem, OSError):
        _silence(sys.stdout)  # it may be what cannot be written
        named = f"{problem.filename}: " if problem.filename else ""
        return f"{named}{problem.strerror or text}", 2
    if isinstance(problem, MemoryError) or "can't allocate memory" in text or "out of memory" in text:
        return "there is not enough memory for this: take smaller settings or fewer rows", 2
    if isinstance(problem, RecursionError):
        text = "something is nested too deeply"
    where = "OUTLAND_TRACEBACK=1 shows where, for a report"
    return f"this should not have happened ({type(problem).__name__}: {text}); {where}", 1


def _silence(stream: Any) -> None:
    """Let nothing more be written to a stream: Python would try, at its end, and complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


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


def _fail(sentence: str, status: int = 2) -> NoReturn:
    with suppress(OSError):
        typer.secho(f"outland: {printable(sentence, 20_000)}", fg="red", err=True)
    sys.exit(status)
