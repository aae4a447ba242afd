"""`staypositive plan`: what a training will cost on some GPUs, before it is started."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

from typer import Option

from staypositive.cli.command import command
from staypositive.cli.console import Console
from staypositive.errors import SettingError
from staypositive.planning import Plan, Shape, Training, plan_training, stored, stored_costs

HEADER = ("GPUs", "state GB", "peak GB", "fits", "moved MB", "sent MB", "ms per step", "send", "epoch s", "M/s")
"""Moved and sent are per step, send is the share of a step's time, M/s million triples per second."""
PUBLISHED = ("system", "graph", "figure", "source")
MOST = 1e15


@command
def plan_command(
    entities: Annotated[float | None, Option(help="Entities, e.g. 86e6; without it, three known graphs.")] = None,
    relations: Annotated[float, Option(help="Relations.")] = 1000,
    triples: Annotated[float | None, Option(help="Training triples.", show_default="10 per entity")] = None,
    dim: Annotated[int, Option(help="Width of one block of an embedding row.")] = 100,
    model: Annotated[str, Option(help="The bilinear model.")] = "simple",
    batch_size: Annotated[int, Option(help="Batch size: facts per step, on each GPU.")] = 65536,
    gpus: Annotated[str, Option(help="Numbers of GPUs to plan for.")] = "1,2,4,8,16,32,64",
    optimiser: Annotated[str, Option(help="adagrad or adagrad-rowwise.")] = "adagrad",
    precision: Annotated[str, Option(help="float32 or bfloat16: how rows are kept.")] = "float32",
    device_memory: Annotated[float | None, Option(help="Memory of a GPU in GB.", show_default="141")] = None,
    console: Console = Console(),
) -> None:
    """Predict memory, traffic and time per epoch of stay-positive training, on one GPU and on many.

    State is exact: rows and AdaGrad's sums, entities shared out, relations on each GPU. Peak and time on one GPU come
    from four times and two sizes, fitted to runs measured on an H200. What GPUs send each other is counted, and timed
    by data sheets: it has not been measured. Lighter optimisers and 16 bits change only the memory, since measured
    steps were no faster with them.

    Examples:
      staypositive plan
      staypositive plan --entities 86e6 --relations 14824 --triples 338e6 --dim 200 --gpus 4,8
      staypositive plan --entities 1e9 --dim 50 --optimiser adagrad-rowwise --precision bfloat16

    """
    costs = stored_costs()
    if device_memory is not None:
        if not 0 < device_memory < MOST:
            raise SettingError(f"--device-memory is a number of GB, got {device_memory:g}")
        costs = replace(costs, device_bytes=device_memory * 1e9)
    training = Training(model, dim, batch_size, optimiser, precision)
    try:
        counts = [int(part) for part in gpus.split(",")]
    except ValueError:
        raise SettingError(f"expected numbers of GPUs such as 1,2,8, got {gpus!r}") from None
    found: dict[str, list[Plan]] = {}
    for name, shape in _shapes(entities, relations, triples).items():
        found[name] = [plan_training(shape, training, count, costs) for count in counts]
        title = f"{name}: {shape.entities:,} entities, {shape.relations:,} relations, {shape.triples:,} triples; "
        console.table(f"{title}{model}, dim {dim}", HEADER, [_row(plan) for plan in found[name]])
    if entities is None:
        rows = [[each[key] for key in PUBLISHED] for each in stored()["published"]]
        console.table("Published of other systems, on other machines", PUBLISHED, rows)
    about = stored()["provenance"]
    console.say(f"fitted to {about['device']} within {about['largest_relative_error']:.0%}; {about['assumed']}")
    rates = ("epoch_seconds", "triples_per_second")
    plans = {
        name: [asdict(plan) | {rate: getattr(plan, rate) for rate in rates} for plan in own]
        for name, own in found.items()
    }
    console.result({"plans": plans, "costs": asdict(costs), "provenance": about, "published": stored()["published"]})


def _shapes(entities: float | None, relations: float, triples: float | None) -> dict[str, Shape]:
    if entities is None:
        if triples is not None:
            raise SettingError("--triples needs --entities")
        return {own["name"]: Shape(own["entities"], own["relations"], own["triples"]) for own in stored()["graphs"]}
    sizes = {"entities": entities, "relations": relations, "triples": 10 * entities if triples is None else triples}
    for name, size in sizes.items():
        if not 1 <= size <= MOST or size != int(size):
            raise SettingError(f"--{name} is a whole number from 1 to {MOST:.0e}, got {size:g}")
    return {"this graph": Shape(*map(int, sizes.values()))}


def _row(plan: Plan) -> list[Any]:
    step = plan.compute_seconds + plan.exchange_seconds
    sizes = plan.state_bytes / 1e9, plan.peak_bytes / 1e9
    traffic = plan.moved_bytes / 1e6, plan.sent_bytes / 1e6
    share = f"{plan.exchange_seconds / step:.0%}"
    return [
        plan.gpus, *map(_short, sizes), plan.fits, *map(_short, traffic), _short(1e3 * step), share,
        _short(plan.epoch_seconds), _short(plan.triples_per_second / 1e6)
    ]  # fmt: skip


def _short(number: float) -> str:
    """Return a number to three digits, without a power of ten."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
