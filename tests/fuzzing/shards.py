"""Target `shards`: runs in shards with files mutated, hashes put right on the whole way from a shard to the run."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from fuzzing.cases import Target, named_refusal
from fuzzing.drawing import mutated_json
from fuzzing.runs import mutated_part, small_graph, write_manifest
from launching import world_of_one
from staypositive.errors import StayPositiveError
from staypositive.files import sha256_bytes
from staypositive.run import Checkpoint, load_run, make_settings, training_task
from staypositive.run.folder import RUN, SHARDS
from staypositive.sharded import fit_sharded, gather_run, leave_in_shards, open_sharded, shard_model, shards_of
from staypositive.sharded.checkpoint import SHARDED, ShardedCheckpointFolder
from staypositive.training import build_engine

KINDS: tuple[dict[str, Any], ...] = (
    {"model": "distmult"},
    {"model": "tucker", "optimiser": "adam", "bound": "identity"},
    {"model": "complex", "precision": "bfloat16"},
)
Bytes = dict[str, bytes]


class Base:
    """A run in shards and the bytes of its files, to be written again for each case."""

    def __init__(self, folder: Path, options: dict[str, Any], world: Any) -> None:
        self.folder, self.world, self.graph = folder, world, small_graph()
        stated = {"dim": 2, "epochs": 1, "validate_every": 1, "batch_size": 8, "device": "cpu", "monitor": "mrr"}
        self.settings = make_settings(**stated, **options)
        trained = fit_sharded(self.graph, self.settings, world, checkpoints=shards_of(folder))
        leave_in_shards(trained, folder, {})
        assert trained.checkpoints is not None
        kept, identity = Checkpoint(shards_of(folder), 1), trained.checkpoints.identity
        origin = dict(trained.provenance)
        self.checkpointer = ShardedCheckpointFolder(world, kept, identity, origin, self._engine(), "mrr")
        self.place = max(shards_of(folder).glob("epoch-*"))
        self.shards = _in_two({path.name: path.read_bytes() for path in self.place.iterdir()})
        self.manifest = json.loads(self.shards.pop(SHARDED.manifest))
        self.run, self.stated = json.loads((folder / "run.json").read_text("utf-8")), RUN.load(folder)[SHARDS]

    def _engine(self) -> Any:
        model = shard_model(self.graph, self.settings, self.world)
        return build_engine("auto", training_task(self.graph, self.settings, model, self.world))

    def resume(self) -> None:
        self.checkpointer.load()

    def forge(self, draw: random.Random) -> None:
        """Write the files anew, some of them mutated, and the hashes that they then have."""
        files = dict(self.shards)
        for name in draw.sample(sorted(files), draw.choice((0, 1, 1, 2))):
            files[name] = mutated_part(draw, name, files[name])
        manifest = json.loads(json.dumps(self.manifest))
        for name, data in files.items():
            (self.place / name).write_bytes(data)
            manifest["files"][name] = {"bytes": len(data), "sha256": sha256_bytes(data)}
        if draw.random() < 0.5:
            manifest = mutated_json(draw, manifest)
        digest = write_manifest(draw, self.place / SHARDED.manifest, manifest)
        stated = json.dumps(json.loads(self.stated) | {"sha256": digest}).encode()
        if draw.random() < 0.1:
            stated = mutated_part(draw, SHARDS, stated)
        (self.folder / "shards.mutated").write_bytes(stated)
        run = json.loads(json.dumps(self.run))
        run["files"][SHARDS] = {"file": "shards.mutated", "sha256": sha256_bytes(stated), "bytes": len(stated)}
        write_manifest(random.Random(1), self.folder / "run.json", run)


class Shards(Target):
    """Each case gathers the run, opens it, or goes on with its training."""

    def __init__(self, folder: Path) -> None:
        self.opened = ExitStack()
        world = self.opened.enter_context(world_of_one())
        self.bases = [Base(folder / str(number), options, world) for number, options in enumerate(KINDS)]

    def case(self, draw: random.Random) -> str:
        base = draw.choice(self.bases)
        base.forge(draw)
        way, out = draw.choice(("gather", "open", "resume")), base.folder.with_name("whole")
        try:
            if way == "gather":
                load_run(gather_run(base.folder, out, rows=draw.choice((1, 5, 100))))
            elif way == "open":
                open_sharded(base.folder, base.world)
            else:
                base.resume()
        except StayPositiveError as error:
            return f"{way} {named_refusal(error, str(base.folder.parent))}"
        finally:
            shutil.rmtree(out, ignore_errors=True)
        return way

    def close(self) -> None:
        self.opened.close()


def _in_two(files: Bytes) -> Bytes:
    """Spread the rows of the only shard over two, as two processes would have left them."""
    whole = load(files["shard-00000.safetensors"])
    parts = {
        f"shard-{rank:05d}.safetensors": save({name: rows[rank::2].contiguous() for name, rows in whole.items()})
        for rank in (0, 1)
    }
    return files | parts
