"""`staypositive tune`: a search over settings that can be stopped and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from staypositive.cli.command import command
from staypositive.cli.console import Console
from staypositive.cli.flags import DataArgument, Reading


@command
def tune_command(
    data: DataArgument,
    space: Annotated[Path | None, Option(help="TOML file of the space.", show_default="the objective's")] = None,
    preset: Annotated[Literal["paper"] | None, Option(help="The paper's grid in place of a file.")] = None,
    sampler: Annotated[Literal["tpe", "grid"], Option(help="How settings are chosen; a preset is a grid.")] = "tpe",
    trials: Annotated[
        int | None, Option(min=1, help="Trials in all, with earlier ones.", show_default="50, or the grid")
    ] = None,
    jobs: Annotated[int, Option(min=1, help="Processes that share the work.")] = 1,
    prune: Annotated[bool, Option(help="End trials that lag behind the median.")] = True,
    study: Annotated[str, Option(help="Name of the study; the same name resumes it.")] = "tune",
    storage: Annotated[
        str | None, Option(help="Where trials are kept: sqlite:///FILE.", show_default="OUT/study.db")
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Folder for results.", show_default="runs/tune-NAME")
    ] = None,
    reading: Reading = Reading(),
    console: Console = Console(),
    **settings: Any,
) -> None:
    """Search settings by validation: TPE or a grid, with pruning, in several processes, resumable.

    Settings given as flags are fixed; the rest of the space is searched. The same command again resumes the search.
    Results: best.toml, study.html and study.db in the folder.

    Examples:
      staypositive tune geo --model complex --epochs 30 --validate-every 5 --trials 20
      staypositive tune geo --space space.toml --jobs 2 --study first --storage sqlite:///searches.db
      staypositive tune WN18AM --preset paper --model simple

    """
    from staypositive.run import train_command
    from staypositive.tuning import choose_space, tune, write_best, write_study_page

    objective = settings.pop("objective")
    fixed = {name: value for name, value in settings.items() if value is not None}
    graph = reading.load(data, fixed.get("seed", 0))
    wanted = choose_space(graph, space, preset, objective).with_fixed(**fixed)
    sampler = "grid" if preset else sampler
    folder = out or Path("runs") / f"tune-{graph.name}"
    folder.mkdir(parents=True, exist_ok=True)
    total = trials or (len(wanted.grid()) if sampler == "grid" else 50)
    console.say(f"searching {', '.join(wanted.searched)}: {total} trials in all")
    with console.progress("trials", total) as advance:
        found = tune(
            graph, wanted, trials=trials, sampler=sampler, study=study, storage=storage or folder / "study.db",
            jobs=jobs, seed=fixed.get("seed", 0), prune=prune, progress=advance,
        )  # fmt: skip
    written = [write_best(found, data, folder / "best.toml"), write_study_page(found, data, folder / "study.html")]
    again = train_command(data, found.settings)
    console.say(f"best validation {found.monitor} {found.value:.4f} of {found.finished} trials; in {folder}:")
    console.say(", ".join(path.name for path in written))
    console.say(f"train it: {again}")
    result = {"value": found.value, "monitor": found.monitor, "best": found.best, "command": again}
    console.result(result | {"trials": found.finished, "folder": str(folder)})
