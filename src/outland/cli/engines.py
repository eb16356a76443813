"""Options for who carries runs out, and the engine they ask for."""

from typing import Annotated, Any

import typer

from outland.errors import OutlandError, unknown

Engine = Annotated[str, typer.Option(metavar="local|ray", help="Who carries the runs out: this machine, or a cluster.")]
Workers = Annotated[
    int | None, typer.Option(help=r"local: so many processes of one thread each, on a CPU. \[default: 1]")
]
Address = Annotated[
    str | None, typer.Option(help=r"ray: of the cluster. \[default: $RAY_ADDRESS, else this machine alone]")
]
Cpus = Annotated[float | None, typer.Option(help=r"ray: CPUs a task. \[default: 1]")]
Gpus = Annotated[float | None, typer.Option(help=r"ray: GPUs a task. \[default: 1 where the cluster has any]")]
SendBack = Annotated[
    bool, typer.Option("--send-back", help="ray: send results here, where machines do not share the --out folder.")
]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Do one of N equal parts of the runs, for job arrays; no report.")
]


def chosen_engine(name: str, workers: int | None, send_back: bool, **given: Any) -> Any:
    """The engine of that name; options of the other one are refused."""
    from outland.studies.engines.local import LocalEngine
    from outland.studies.engines.ray import RayEngine

    named = {option: value for option, value in given.items() if value is not None}
    if send_back:
        named["send_back"] = True
    if name == "local":
        if named:
            raise OutlandError(f"--{next(iter(named)).replace('_', '-')} is for --engine ray")
        return LocalEngine(1 if workers is None else workers)
    if name != "ray":
        raise unknown("engine", name, ["local", "ray"])
    if workers is not None:
        raise OutlandError("--workers is for --engine local; on a cluster --cpus and --gpus say what each task needs")
    return RayEngine(**named)
