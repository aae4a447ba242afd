"""What pytest collects depends on what is installed: rooms for optional libraries are passed over without them."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("pykeen") else ["src/staypositive/interop/pykeen*"]
