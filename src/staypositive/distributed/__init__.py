"""Training by several processes, started by torchrun: entity rows and their optimiser state are spread over them."""

from staypositive.distributed.checkpoint import CheckpointFolder, remove_checkpoints
from staypositive.distributed.discovery import discover_sharded
from staypositive.distributed.engine import ShardedEngine
from staypositive.distributed.fitting import ShardedRun, fit_sharded, new_sharded_engine, shard_model
from staypositive.distributed.in_shards import gather_run, keep_metrics, leave_in_shards, open_sharded, shards_of
from staypositive.distributed.ranking import rank_sampled_sharded, rank_sharded, score_sharded
from staypositive.distributed.world import World, is_first, is_launched, open_world, own_device, restarts

__all__ = [
    "CheckpointFolder",
    "ShardedEngine",
    "ShardedRun",
    "World",
    "discover_sharded",
    "fit_sharded",
    "gather_run",
    "is_first",
    "is_launched",
    "keep_metrics",
    "leave_in_shards",
    "new_sharded_engine",
    "open_sharded",
    "open_world",
    "own_device",
    "rank_sampled_sharded",
    "rank_sharded",
    "remove_checkpoints",
    "restarts",
    "score_sharded",
    "shard_model",
    "shards_of",
]
