"""Training by several processes, started by torchrun: entity rows and their optimiser state are spread over them."""

from staypositive.sharded.checkpoint import ShardedCheckpointFolder, remove_checkpoints
from staypositive.sharded.fitting import ShardedRun, fit_sharded, shard_model
from staypositive.sharded.in_shards import gather_run, keep_metrics, leave_in_shards, open_sharded, shards_of
from staypositive.sharded.ranking import discover_sharded, rank_sampled_sharded, rank_sharded, score_sharded
from staypositive.training import World, is_first, is_launched, open_world, own_device, restarts

__all__ = [
    "ShardedCheckpointFolder", "ShardedRun", "World", "discover_sharded", "fit_sharded", "gather_run", "is_first",
    "is_launched", "keep_metrics", "leave_in_shards", "open_sharded", "open_world", "own_device",
    "rank_sampled_sharded", "rank_sharded", "remove_checkpoints", "restarts", "score_sharded", "shard_model",
    "shards_of",
]  # fmt: skip
