"""Options that several commands share."""

import atexit
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from outland.errors import OutlandError, listed
from outland.progress import echo


def _folder(path: Path | None) -> Path | None:
    """The folder of raw files, if it is there; one that is mistyped would be made, and all files fetched into it."""
    if path is not None and not path.is_dir():
        raise OutlandError(f"--data {path}: there is no such folder; make it first if files are to be fetched into it")
    return path


_LONGEST = 120  # bytes of a name that is made of others
Method = Annotated[str, typer.Option(help="NAME or NAME:PRESET from `outland list methods`, or FILE.py:CLASS.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Epochs = Annotated[int | None, typer.Option(help="Train for so many epochs instead.")]
Limit = Annotated[int | None, typer.Option(help="Take at most so many graphs a part.")]
Seed = Annotated[int, typer.Option(help="Decides everything random in the run.")]
DatasetName = Annotated[
    str, typer.Argument(metavar="DATASET", help="A name from `outland list datasets`, or the file of your own table.")
]
Domain = Annotated[
    str | None, typer.Option(help=r"The domain that shifts: base, size, scaffold, ... \[default: the first one]")
]
Kind = Annotated[str | None, typer.Option(help=r"How it shifts: covariate, concept or none. \[default: the first one]")]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        callback=_folder,
        help=r"Folder of raw files. \[default: $OUTLAND_DATA, else the cache]",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="GROUP.NAME=VALUE", help="Change a setting, as in method.gamma=0.5; comes last."),
]
Recipe = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE.toml|none", help=r"Hyper-parameters to start from. \[default: the dataset's own recipe]"
    ),
]
Smiles = Annotated[
    str, typer.Option(help=r"Your table's column of SMILES. \[default: the one that can be read as such]")
]
Target = Annotated[list[str] | None, typer.Option(help="Your table's column of labels; give it again for several.")]
TaskKind = Annotated[str, typer.Option(help="binary, multiclass or regression; auto looks at the labels.")]
MergeLabels = Annotated[
    bool, typer.Option("--merge-labels", help="Labels that mean the same, as 1, active and TRUE, are one class.")
]
Censored = Annotated[
    str, typer.Option(metavar="drop|value", help="Labels such as >10: leave them out, or take the number.")
]
Environment = Annotated[str | None, typer.Option(help="Your table's column of environments.")]
Split = Annotated[str | None, typer.Option(help="Your table's column of train/val/test, for `--domain column`.")]
Time = Annotated[str | None, typer.Option(help="Your table's column of times, for `--domain time`.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run the method's source that the folder keeps, where it is not outland's.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop if any row of your table cannot be used.")]
Track = Annotated[
    str | None,
    typer.Option(
        metavar="tensorboard|mlflow|wandb", help="Show curves there as they grow; records are written anyway."
    ),
]
TimeBudget = Annotated[
    str | None,
    typer.Option(metavar="25m|2h|90s", help="Stop in time: runs that would not end are not begun, others go on later."),
]


def parse_duration(words: str | None) -> float | None:
    """Seconds of a duration as `90s`, `25m` or `2h`."""
    if words is None:
        return None
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = words[:-1], words[-1:]
    if unit not in units or not number.replace(".", "", 1).isdecimal() or float(number) <= 0:
        raise OutlandError(f"'{words}' is not a duration: write it as 90s, 25m or 2h")
    return float(number) * units[unit]


def paragraphs(command: Callable[..., None]) -> str:
    """A command's help with one line a paragraph, to be wrapped to the terminal's width."""
    text = inspect.cleandoc(command.__doc__ or "")
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def assignments(words: list[str] | None, epochs: int | None, limit: int | None) -> list[str]:
    """The words of --set, and the settings that --epochs and --limit stand for."""
    given = {"train.epochs": epochs, "data.limit": limit}
    return [*(words or []), *(f"{name}={value}" for name, value in given.items() if value is not None)]


@contextmanager
def stoppable(advice: str) -> Iterator[None]:
    """On Ctrl-C and SIGTERM, say how to go on, and exit with status 130 or 143."""
    from outland.stopping import Stopped

    try:
        yield
    except KeyboardInterrupt:
        echo(f"\nStopped. {advice}", err=True)
        raise typer.Exit(130) from None
    except Stopped as stopped:
        echo(f"{str(stopped)[:1].upper()}{str(stopped)[1:]}. {advice}", err=True)
        raise typer.Exit(143) from None


def table_path(name: str) -> str:
    """The file of a table; for `-` a copy of standard input, which is there until the process ends."""
    if name != "-":
        return name
    from outland.tables.streams import table_file

    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(table_file(name))


def table_domain(domain: str | None, split: str | None, time: str | None) -> str | None:
    """The split that the user's columns ask for, where none is named."""
    return domain or ("column" if split else "time" if time else None)


def label_columns(table: Path, target: list[str] | None) -> list[str]:
    """The columns of labels, each once; a question that names the table's columns where none is given."""
    from outland.tables.reading import column_names

    if not target:
        names = listed(column_names(table))
        raise OutlandError(f"which column of {table.name} holds the labels? Name it with --target (columns: {names})")
    return [*dict.fromkeys(target)]


def table_settings(dataset: str, required: bool = False, **columns: Any) -> Any:
    """Settings of the user's table, if that is what `dataset` names or what is `required`; else None."""
    named = [name for name in ("target", "environment", "split", "time") if columns.get(name)]
    if not Path(dataset).suffix and not required:
        if named:
            raise OutlandError(f"--{named[0]} is for a table of your own, and {dataset} is not a file")
        return None
    if not (Path(dataset).exists() or named or required):
        return None
    from outland.datasets import TableSettings
    from outland.settings import change

    return change(TableSettings(dataset), {**columns, "target": tuple(columns.pop("target") or ())}, "table")


def chosen_recipe(name: str | None, dataset: str, table: Any) -> Any:
    """The recipe of that name, if it is for this dataset; a user's table may start from any."""
    if name is None:
        return "auto"
    if name == "none":
        return None
    from outland.recipes import find_recipe
    from outland.studies.recipe_check import check_recipe

    recipe = check_recipe(find_recipe(name))
    if table is None and dataset not in recipe.datasets:
        raise OutlandError(f"the recipe {name} is for {', '.join(recipe.datasets)}, not for {dataset}")
    return recipe


def file_name(name: str) -> str:
    """A name without odd characters and without two dashes in a row, short enough for a file."""
    return re.sub(r"[^\w]+", "-", name).strip("-").encode()[:_LONGEST].decode(errors="ignore")


def setting_hint(option: str, command: str) -> str:
    """How to write an option that is no option but the name of a setting; else nothing."""
    if command not in ("train", "study"):
        return ""
    from outland.methods import METHODS, method_settings
    from outland.nn import BackboneSettings
    from outland.training import DataSettings, TrainSettings

    name = option.lstrip("-").replace("-", "_")
    groups: dict[str, list[Any]] = {"train": [TrainSettings()], "data": [DataSettings()]}
    groups |= {"backbone": [BackboneSettings()], "method": [method_settings(method, {}) for method in METHODS]}
    names = [group for group, defaults in groups.items() if any(name in vars(settings) for settings in defaults)]
    valid = " or ".join(f"--set {group}.{name}=VALUE" for group in names)
    return f" Did you mean {valid}?" if valid else ""
