"""`staypositive tune`: a search over settings that can be stopped and taken up again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from staypositive.cli.common import JsonFlag, QuietFlag, Speaker, VerboseFlag
from staypositive.cli.flags import ObjectiveName, with_settings_flags
from staypositive.cli.reading import DataArgument, Reading, reads_graph
from staypositive.errors import SettingError
from staypositive.graph import KnowledgeGraph


def tune(
    data: DataArgument,
    space: Annotated[
        Path | None, typer.Option(help="TOML file of the space.", show_default="a space for the objective")
    ] = None,
    preset: Annotated[Literal["paper"] | None, typer.Option(help="The paper's grid in place of a file.")] = None,
    sampler: Annotated[
        Literal["tpe", "grid"], typer.Option(help="How settings are chosen; a preset is a grid.")
    ] = "tpe",
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials in all, earlier ones included.", show_default="50, or the grid")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the work.")] = 1,
    prune: Annotated[bool, typer.Option(help="End trials that lag behind the median.")] = True,
    study: Annotated[str, typer.Option(help="Name of the study; the same name goes on with it.")] = "tune",
    storage: Annotated[
        str | None, typer.Option(help="Where trials are kept: sqlite:///FILE.", show_default="study.db in --out")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for results.", show_default="runs/tune-NAME")
    ] = None,
    reading: Reading = Reading(),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
    objective: Annotated[ObjectiveName | None, typer.Option(help="The loss to train by.")] = None,
    **settings: Any,
) -> None:
    """Search settings by validation: TPE or a grid, with pruning, in several processes, resumable.

    Settings given as flags are fixed; the rest of the space is searched. The same command again goes on where it
    stopped. Results: best.toml, study.html and study.db in the folder.

    Examples:
      staypositive tune geo --model complex --epochs 30 --validate-every 5 --trials 20

      staypositive tune geo --space space.toml --jobs 2 --study first --storage sqlite:///searches.db

      staypositive tune WN18AM --preset paper --model simple

    """
    from staypositive.run import train_command
    from staypositive.tuning import tune as search
    from staypositive.tuning import write_study_page
    from staypositive.tuning.page import write_best

    speaker = Speaker(as_json, quiet, verbose)
    fixed = {name: value for name, value in settings.items() if value is not None}
    graph = reading.load(data, fixed.get("seed", 0))
    wanted = _space(graph, space, preset, objective).with_fixed(**fixed)
    sampler = "grid" if preset else sampler
    folder = out or Path("runs") / f"tune-{graph.name}"
    folder.mkdir(parents=True, exist_ok=True)
    total = trials or (len(wanted.grid()) if sampler == "grid" else 50)
    speaker.say(f"searching {', '.join(wanted.searched)}: {total} trials in all")
    with speaker.progress("trials", total) as advance:
        found = search(
            graph, wanted, trials=trials, sampler=sampler, study=study, storage=storage or folder / "study.db",
            jobs=jobs, seed=fixed.get("seed", 0), prune=prune, progress=advance,
        )  # fmt: skip
    written = [write_best(found, data, folder / "best.toml"), write_study_page(found, data, folder / "study.html")]
    command = train_command(data, found.settings)
    speaker.say(f"best validation {found.monitor} {found.value:.4f} of {found.finished} trials; in {folder}:")
    speaker.say(", ".join(path.name for path in written))
    speaker.say(f"train it: {command}")
    best = {**wanted.fixed, **found.study.best_params}
    speaker.result({"value": found.value, "monitor": found.monitor, "best": best, "command": command,
                    "trials": found.finished, "folder": str(folder)})  # fmt: skip


def _space(graph: KnowledgeGraph, path: Path | None, preset: str | None, objective: str | None) -> Any:
    from staypositive.tuning import default_space, paper_space, read_space

    if path is not None and preset is not None:
        raise SettingError("give either --space or --preset, not both")
    if path is not None:
        found = read_space(path)
        return found if objective is None else found.with_fixed(objective=objective)
    if preset is not None:
        return paper_space(objective or "stay-positive", len(graph.train))
    return default_space(objective or "stay-positive")


tune_command = with_settings_flags(reads_graph(tune))
