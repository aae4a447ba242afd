"""`staypositive` where process 0 has no memory free, so that what it trains stays in shards. Run by torchrun."""

from __future__ import annotations

from staypositive.__main__ import main
from staypositive.sharded import fitting

if __name__ == "__main__":
    fitting.free_memory = lambda: 0.0
    main()
