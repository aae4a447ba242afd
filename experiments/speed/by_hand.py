"""What we write by hand beside the library that would do it: seconds, and whether both say the same.

Libraries that are not installed are passed over: pyoxigraph, matplotlib, prometheus_client. The table of
`docs/by-hand.md` comes from here. Each time is the shortest of five, in one thread.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

DRAW = np.random.default_rng(0)


def shortest(work: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest of some times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def show(what: str, ours: float, theirs: float, unit: str, note: str = "") -> None:
    """Print one line."""
    print(f"{what:28} ours {ours:10.4g} {unit}   library {theirs:10.4g} {unit}   ×{theirs / ours:6.2f}   {note}")


def reading() -> None:
    """A file of a million triples: pandas in one piece, ours in pieces, each in an interpreter of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.tsv"
        ids = DRAW.integers(200_000, size=(1_000_000, 2))
        path.write_text("".join(f"entity/{h}\trelation/{h % 50}\tentity/{t}\n" for h, t in ids.tolist()), "utf-8")
        ours = "from staypositive.graph import read_triples as read; read(PATH)"
        pandas = (
            "import numpy as np, pandas as pd;"
            "f = pd.read_csv(PATH, sep='\\t', header=None, dtype=str, keep_default_na=False, quoting=3);"
            "pd.factorize(np.concatenate([f[0], f[2]])), pd.factorize(f[1])"
        )
        found = [_alone(code.replace("PATH", repr(str(path)))) for code in (ours, pandas)]
    show("reading, 1 M lines", found[0][0], found[1][0], "s")
    show("reading, peak memory", found[0][1], found[1][1], "MB", "with the imports")


def _alone(code: str) -> tuple[float, float]:
    """Return seconds and peak megabytes of some code in an interpreter of its own."""
    imports, _, work = code.partition(";")
    status = "dict(line.split(':') for line in open('/proc/self/status'))"
    said = f"print(time.perf_counter() - start, int({status}['VmHWM'].split()[0]) / 1024)"
    whole = f"import time; {imports}; start = time.perf_counter(); {work}; {said}"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, encoding="utf-8", check=True)
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def writing_rdf() -> None:
    """N-Triples of a hundred thousand statements."""
    import pyoxigraph as ox

    from staypositive.interop.ntriples import statement

    labels = [(f"http://e.org/{h}", f"http://e.org/r{h % 9}", f"http://e.org/{t}") for h, t in _pairs(100_000)]

    def theirs() -> bytes:
        quads = (ox.Triple(*map(ox.NamedNode, row)) for row in labels)
        return bytes(ox.serialize(quads, format=ox.RdfFormat.N_TRIPLES))

    assert theirs().decode() == "".join(map(statement, labels))
    show("N-Triples, 100,000", shortest(lambda: "".join(map(statement, labels))), shortest(theirs), "s")


def _pairs(n: int) -> list[list[int]]:
    pairs: list[list[int]] = DRAW.integers(5000, size=(n, 2)).tolist()
    return pairs


def drawing() -> None:
    """A line chart of two hundred points as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    from staypositive.reports.charts import Series, line_chart

    xs, ys = list(range(200)), np.cumsum(DRAW.random(200)).tolist()

    def theirs() -> str:
        figure, axis = plt.subplots(figsize=(6, 3))
        axis.plot(xs, ys, label="loss")
        axis.legend()
        stream = io.StringIO()
        figure.savefig(stream, format="svg")
        plt.close(figure)
        return stream.getvalue()

    ours = str(line_chart([Series("loss", xs, ys)], "loss"))
    show("line chart", shortest(lambda: line_chart([Series("loss", xs, ys)], "loss")), shortest(theirs), "s")
    show("line chart, size", len(ours) / 1024, len(theirs()) / 1024, "KB")


def stepping() -> None:
    """AdaGrad on a table of FB15k-237's size, of which a batch touches 1,500 rows."""
    from staypositive.training.optimisers import AdaGrad

    table, ids = torch.randn(14_541, 200), torch.randperm(14_541)[:1500].sort().values
    gradient = torch.randn(1500, 200)
    ours = AdaGrad({"rows": table.clone()}, 0.1, 0.1)
    sparse, dense = (torch.nn.Parameter(table.clone()) for _ in range(2))
    sparse.grad = torch.sparse_coo_tensor(ids[None], gradient, table.shape, check_invariants=True).coalesce()
    dense.grad = torch.zeros_like(table).index_copy_(0, ids, gradient)
    steps = [torch.optim.Adagrad([one], 0.1, initial_accumulator_value=0.1) for one in (sparse, dense)]
    mine = shortest(lambda: ours.update("rows", ids, gradient))
    for name, step, weights in zip(("sparse", "dense"), steps, (sparse, dense), strict=True):
        show(f"AdaGrad, torch's {name}", 1e3 * mine, 1e3 * shortest(step.step), "ms")
        assert torch.allclose(weights, ours.tables["rows"], atol=1e-5)


def drawing_masks() -> None:
    """Half a million random bits: a hash of the place, or torch's stream."""
    from staypositive.models.hashing import mix_all

    places, stream = torch.arange(2500 * 200), torch.Generator().manual_seed(0)
    mine = shortest(lambda: mix_all(places) < 2**31)
    show(
        "random mask, 500,000",
        1e3 * mine,
        1e3 * shortest(lambda: torch.rand(len(places), generator=stream) < 0.5),
        "ms",
    )


def counting() -> None:
    """What a request costs to be counted and timed."""
    from prometheus_client import CollectorRegistry, Counter, Histogram

    from staypositive.service.guard import BOUNDS, Metrics

    registry, ours = CollectorRegistry(), Metrics()
    requests = Counter("requests", "Requests.", ["path", "status"], registry=registry)
    seconds = Histogram("seconds", "Time.", ["path"], buckets=BOUNDS, registry=registry)

    def theirs() -> None:
        for _ in range(1000):
            requests.labels("/predict", "200").inc()
            seconds.labels("/predict").observe(0.004)

    def mine() -> None:
        for _ in range(1000):
            ours.record("/predict", 200, 0.004)

    show("counting a request", 1e3 * shortest(mine), 1e3 * shortest(theirs), "µs")


def estimating() -> None:
    """Densities, lines and intervals, beside SciPy's and scikit-learn's."""
    from scipy.stats import binomtest, gaussian_kde
    from sklearn.linear_model import LogisticRegression

    from staypositive.inference import wilson
    from staypositive.probability import Platt, kernel_density

    values, knots = DRAW.normal(2, 1, 5000), np.linspace(-4, 6, 400)
    low, high = np.quantile(values, [0.25, 0.75])
    factor = 0.9 * min(values.std(), (high - low) / 1.34) * 5000**-0.2 / values.std(ddof=1)
    assert np.allclose(gaussian_kde(values, factor)(knots), kernel_density(values, knots), atol=1e-3)
    mine = shortest(lambda: kernel_density(values, knots))
    show("kernel density, 5,000", 1e3 * mine, 1e3 * shortest(lambda: gaussian_kde(values, factor)(knots)), "ms")

    truth = DRAW.random(5000) < 0.5
    logits = np.where(truth, 1.0, -1.0) + DRAW.normal(0, 2, 5000)
    line = LogisticRegression(C=np.inf, tol=1e-10)
    theirs = shortest(lambda: line.fit(logits[:, None], truth))
    gap = abs(float(line.coef_[0, 0]) - Platt.fit(logits, truth).slope)
    mine = shortest(lambda: Platt.fit(logits, truth))
    show("Platt's line, 5,000", 1e3 * mine, 1e3 * theirs, "ms", f"slopes differ by {gap:.0e}, as the targets do")

    assert binomtest(37, 20_000).proportion_ci(method="wilson").low == wilson(37, 20_000, 1.0).low
    theirs = shortest(lambda: binomtest(37, 20_000).proportion_ci(method="wilson"))
    show("Wilson's interval", 1e6 * shortest(lambda: wilson(37, 20_000, 1.0)), 1e6 * theirs, "µs")


def by_hand() -> None:
    """Measure what we write by hand beside the library that would do it: seconds, and whether both say the same."""
    torch.set_num_threads(1)
    for part in (reading, writing_rdf, drawing, stepping, drawing_masks, counting, estimating):
        try:
            part()
        except ModuleNotFoundError as error:
            print(f"{part.__name__}: passed over, {error.name} is not installed")
