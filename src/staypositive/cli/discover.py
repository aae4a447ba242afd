"""`staypositive discover`: new facts over the whole graph, with probabilities."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from staypositive.cli.common import JsonFlag, QuietFlag, RunArgument, SafeFlag, Speaker, VerboseFlag
from staypositive.cli.tables import frame_rows
from staypositive.errors import InputError
from staypositive.files import write_atomic
from staypositive.inference import Discovery, Predictor, discover
from staypositive.inference.ordering import best_first
from staypositive.interop import require_table_path, write_table
from staypositive.models import Scorer
from staypositive.run import Run, load_run
from staypositive.sharded import ShardedRun, is_first, is_launched, open_sharded, open_world, own_device

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("head", "relation", "tail", "probability", "score")
KEYS = ("log_odds", "h", "r", "t")
"""What relations' finds are merged by, beside the score; kept with partial results, and not shown."""


def discover_command(
    run: RunArgument,
    min_probability: Annotated[float, typer.Option(help="Keep triples of at least this probability.")] = 0.9,
    top: Annotated[int | None, typer.Option(min=1, help="Keep so many, the most likely.")] = None,
    prior: Annotated[
        float | None, typer.Option(help="Share of true triples to assume.", show_default="the run's")
    ] = None,
    relations: Annotated[str | None, typer.Option(help="Relations to look at, separated by commas.")] = None,
    all_pairs: Annotated[
        bool, typer.Option("--all-pairs", help="Pair all entities, not only a relation's domain and range.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write .tsv, .csv, .parquet or .nt; goes on where it was stopped."),
    ] = None,
    spreadsheet_safe: SafeFlag = False,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    verbose: VerboseFlag = False,
) -> None:
    """Find new triples that are likely, over the whole graph.

    Facts of any split are left out. Probabilities assume a share of true triples, which among all pairs of a
    relation's domain and range is small: say so with --prior.

    Examples:
      staypositive discover runs/geo --prior 0.03 --top 20

      staypositive discover runs/geo --relations borders,has_currency --min-probability 0.5 --out new.tsv

      torchrun --nproc-per-node 4 -m staypositive discover runs/in-shards --top 20

    """
    speaker = Speaker(as_json, quiet, verbose)
    if out is not None:
        require_table_path(out)
    options = {"min_probability": min_probability, "prior": prior, "all_pairs": all_pairs, "most": top}
    with _open(run) as held:
        wanted = list(range(len(held.graph.relations)))
        if relations is not None:
            wanted = [held.graph.relations.id(name) for name in relations.split(",")]
        asked = {"run": held.provenance, "min_probability": min_probability, "prior": prior, "all_pairs": all_pairs,
                 "top": top, "calibrator": held.calibrator}  # fmt: skip
        kept = Partial(out if is_first() else None, asked)
        left = held.agree([relation for relation in wanted if relation not in kept.done])
        with speaker.progress("relations", len(left)) as advance:
            for relation, table in held.tables(relations=left, progress=advance, **options):
                kept.add(relation, table)
    if not is_first():
        return
    table = kept.table(top)
    if out is not None:
        write_table(table, out, spreadsheet_safe=spreadsheet_safe)
        kept.remove()
        speaker.say(f"{len(table):,} new triples written to {out}")
    else:
        speaker.table(f"{len(table):,} new triples", list(COLUMNS), frame_rows(table))
    speaker.result(table.to_dict(orient="records"))


class Searched:
    """A run to look for new triples in."""

    def __init__(self, run: Run) -> None:
        self.run, self.graph, self.provenance = run, run.graph, run.provenance
        self.calibrator = run.calibrator.name if run.calibrator else None

    def agree(self, relations: list[int]) -> list[int]:
        """Return the relations that are left to look at."""
        return relations

    def tables(self, *, prior: float | None, **options: Any) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield relations and what was found of each."""
        predictor = self.run.predictor
        for found in discover(predictor, prior=prior, **options):
            yield found.relation, label_triples(predictor, found, prior)


class SearchedInShards:
    """A run in shards to look for new triples in, by several processes; process 0 has what they find."""

    calibrator = None

    def __init__(self, run: ShardedRun) -> None:
        self.run, self.graph, self.provenance = run, run.graph, run.provenance

    def agree(self, relations: list[int]) -> list[int]:
        """Return what process 0 has left to look at: it alone knows what was found before."""
        return self.run.world.from_first(relations)

    def tables(self, *, prior: float | None, **options: Any) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield relations and what was found of each."""
        predictor = Predictor(self.graph, Scorer(self.run.model))
        for found in self.run.discover(prior=prior, **options):
            yield found.relation, label_triples(predictor, found, prior)


@contextmanager
def _open(folder: Path) -> Iterator[Searched | SearchedInShards]:
    if not is_launched():
        yield Searched(load_run(folder))
        return
    with open_world(own_device()) as world:
        yield SearchedInShards(open_sharded(folder, world))


def label_triples(predictor: Predictor, found: Discovery, prior: float | None) -> pd.DataFrame:
    """Return what was found by label, with probability and score, and with the keys that it is ordered by."""
    ranks = np.arange(len(found.triples))
    rows = np.column_stack([np.zeros_like(ranks), ranks, found.triples])
    table: pd.DataFrame = predictor.table(rows, found.scores, prior)[list(COLUMNS)]
    return table.assign(log_odds=found.logits, h=rows[:, 2], r=rows[:, 3], t=rows[:, 4])


class Partial:
    """What was found so far, beside the output, so that a stopped search goes on; without an output in memory."""

    def __init__(self, out: Path | None, asked: dict[str, Any]) -> None:
        self.folder = None if out is None else out.with_name(f"{out.name}.partial")
        self.asked = json.loads(json.dumps(asked))
        self.parts: dict[int, pd.DataFrame] = {}
        if self.folder is not None:
            self._go_on(self.folder)

    @property
    def done(self) -> set[int]:
        """The relations that need not be looked at again."""
        return set(self.parts)

    def add(self, relation: int, table: pd.DataFrame) -> None:
        """Keep what a relation has."""
        self.parts[relation] = table
        if self.folder is not None:
            write_table(table, self.folder / f"{relation}.tsv")

    def table(self, top: int | None = None) -> pd.DataFrame:
        """Return all that was found, or so many, most likely first."""
        import pandas as pd

        filled = [table for table in self.parts.values() if len(table)]
        whole = pd.concat(filled) if filled else pd.DataFrame({column: [] for column in (*COLUMNS, *KEYS)})
        log_odds, scores = (whole[name].to_numpy(np.float64) for name in ("log_odds", "score"))
        order = best_first(log_odds, scores, whole[["h", "r", "t"]].to_numpy(np.int64))[:top]
        return whole[list(COLUMNS)].iloc[order].reset_index(drop=True)

    def remove(self) -> None:
        """Take the partial results away; what else is in their folder stays."""
        if self.folder is not None:
            self._clear(self.folder)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _go_on(self, folder: Path) -> None:
        """Take up the results of an earlier search for the same thing; throw away those for another."""
        import pandas as pd

        if folder.is_symlink():
            raise InputError(f"{folder} is a link, and nothing is written to linked folders; remove it")
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / "asked.json"
        types: dict[str, Any] = dict.fromkeys(("head", "relation", "tail"), str) | dict.fromkeys(("h", "r", "t"), int)
        types |= dict.fromkeys(("probability", "score", "log_odds"), float)
        try:
            if note in _own(folder, r"asked\.json") and json.loads(note.read_bytes()) == self.asked:
                for path in _own(folder, r"\d+\.tsv"):
                    self.parts[int(path.stem)] = pd.read_csv(
                        path, sep="\t", dtype=types, keep_default_na=False, lineterminator="\n", encoding="utf-8"
                    )[[*COLUMNS, *KEYS]]
                return
        except (OSError, ValueError, KeyError, RecursionError):  # none yet, or not as we write them
            self.parts = {}
        self._clear(folder)
        write_atomic(note, json.dumps(self.asked))

    @staticmethod
    def _clear(folder: Path) -> None:
        for path in _own(folder, r"asked\.json|\d+\.tsv|\..*\.part"):
            path.unlink()


def _own(folder: Path, names: str) -> list[Path]:
    """Return the plain files of some names in a folder."""
    found = (path for path in folder.iterdir() if re.fullmatch(names, path.name))
    return [path for path in found if path.is_file() and not path.is_symlink()]
