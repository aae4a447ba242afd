"""Training by several processes, started by torchrun: entity rows and their optimiser state are spread over them."""

from staypositive.distributed.checkpoint import CheckpointFolder, remove_checkpoints
from staypositive.distributed.discovery import discover_sharded
from staypositive.distributed.engine import ShardedEngine
from staypositive.distributed.fitting import ShardedRun, fit_sharded, new_sharded_engine, shard_model
from staypositive.distributed.ranking import rank_sharded, score_sharded
from staypositive.distributed.world import World, is_first, is_launched, open_world, restarts

__all__ = [
    "CheckpointFolder",
    "ShardedEngine",
    "ShardedRun",
    "World",
    "discover_sharded",
    "fit_sharded",
    "is_first",
    "is_launched",
    "new_sharded_engine",
    "open_world",
    "rank_sharded",
    "remove_checkpoints",
    "restarts",
    "score_sharded",
    "shard_model",
]
