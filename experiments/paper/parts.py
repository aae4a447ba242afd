"""The parts of `reproduce` besides the tables: each prints its plan, runs, and adds figures and pictures."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from experiments.artifacts import Artifact, background_artifact
from experiments.store import read_results
from staypositive.errors import InputError

if TYPE_CHECKING:
    from experiments.paper.command import Job
    from experiments.paper.paper import Cell

TIMED = "FB15k-237AM"
"""Where the paper times FB15k and FB15k-237AM, we take the second for both."""


def figure1(job: Job, dry_run: bool) -> None:
    """Histograms, densities and reliability curves from artifacts."""
    from experiments.paper.figure1 import plot_figure1
    from experiments.paper.table2 import artifact_path

    for dataset in ("WN11", "FB13"):
        models = []
        for cell in job.paper.cells(None, [dataset]):
            path = artifact_path(job.context, cell.slug, job.paper.rule.seeds[0])
            if cell in job.paper.table2 and path.exists():
                models.append((cell.name, path))
        out = job.plots / f"figure1-{dataset}.png"
        names = ", ".join(name for name, _ in models) or "no artifact yet: run table2 first"
        job.console.say(f"figure1, {dataset}: {names} → {out}")
        if models and not dry_run:
            plot_figure1(dataset, [(name, Artifact.read(path)) for name, path in models], out)


def beyond_paper(job: Job, dry_run: bool) -> None:
    """What goes beyond the paper, drawn from figures and artifacts."""
    from experiments.paper.beyond_paper import FIGURES, plot_beyond_paper

    names = ", ".join(f"{name}.png" for name in FIGURES)
    job.console.say(f"beyond_paper: ranking, reliability and NLL of second moments → {names} in {job.plots}")
    if not dry_run and not plot_beyond_paper(job.context.results, job.plots):
        job.console.say(f"beyond_paper: {job.context.results} has no second-moment result yet")


def table1(job: Job, dry_run: bool) -> None:
    """The share of an epoch that drawing negatives takes."""
    from experiments.paper.sampling import sampling_share
    from experiments.speed.timing import Workload

    epochs, negatives, batch = (3 if job.quick else 100), 10, 4832
    job.console.say(
        f"table1: SimplE and ComplEx on {TIMED} (the paper: FB15k), {negatives} negatives, batch {batch}, d 200, "
        f"{epochs} epochs of the fused engine, {max(1, epochs // 5)} of the looping sampler, "
        f"{max(1, epochs // 50)} of the reference engine, on the CPU"
    )
    if dry_run:
        return
    workload = Workload.of_graph(job.load(TIMED))
    figures = []
    for model in ("simple", "complex"):
        for engine, repeats in (("auto", epochs), ("reference", max(1, epochs // 50))):
            figures += sampling_share(workload, model, engine, negatives, batch, 200, repeats)
    header = ["model", "engine", "sampler", "drawing_seconds", "rest_seconds", "share"]
    job.console.table("Drawing negatives, of an epoch", header, [[f[key] for key in header] for f in figures])
    _record(job, "table1", figures, {"drawing_seconds": "s", "rest_seconds": "s", "share": ""}, job.load(TIMED))


def figure2(job: Job, dry_run: bool) -> None:
    """How much shorter spSimplE's epoch is than SimplE's, by negative ratio."""
    from experiments.paper.sampling import RATIOS, time_reduction
    from experiments.speed.timing import Workload

    ratios, batch = (RATIOS[:3] if job.quick else RATIOS), 1415
    job.console.say(
        f"figure2: SimplE with n = {', '.join(map(str, ratios))} against spSimplE on {TIMED}, batch {batch} and "
        f"(n+1) · {batch}, d 200, both samplers, fused and reference engines, on the CPU"
    )
    if dry_run:
        return
    graph = job.load(TIMED)
    figures = []
    for engine in ("auto", "reference"):
        chosen = ratios if engine == "auto" else [n for n in ratios if n <= 20]
        with job.console.progress(f"figure2, {engine}", len(chosen)) as done:
            figures += time_reduction(
                Workload.of_graph(graph), engine, batch, 200, 1 if job.quick else 3, chosen, done
            )
    header = ["engine", "sampler", "negatives", "baseline_seconds", "stay_positive_seconds", "reduction"]
    job.console.table("Epochs of SimplE and spSimplE", header, [[f[key] for key in header] for f in figures])
    units = {"baseline_seconds": "s", "stay_positive_seconds": "s", "reduction": ""}
    _record(job, "figure2", figures, units, graph)
    plot_reduction(figures, job)


def plot_reduction(figures: list[dict[str, Any]], job: Job) -> None:
    """Draw Figure 2."""
    from experiments.plots import label_ticks, pyplot, save_figure

    figure, axes = pyplot().subplots(figsize=(5.5, 3.6), layout="constrained")
    for engine in dict.fromkeys(f["engine"] for f in figures):
        for sampler, style in (("loop", "--"), ("vectorised", "-")):
            own = [f for f in figures if f["engine"] == engine and f["sampler"] == sampler]
            label = f"{engine}, {sampler} sampler"
            axes.plot(
                [f["negatives"] for f in own], [100 * f["reduction"] for f in own], style, marker="o", label=label
            )
    axes.set_xscale("log")
    label_ticks(axes, sorted({f["negatives"] for f in figures}))
    axes.set(xlabel="negative ratio n", ylabel="reduction of epoch time, %", ylim=(0, 100))
    axes.legend(fontsize=8)
    save_figure(figure, job.plots / "figure2.png", dpi=130)


def ablations(job: Job, dry_run: bool) -> None:
    """Every variant of every row that has a chosen setting, but those that the results have."""
    from experiments.paper.ablations import ablate, missing_variants, variants
    from experiments.paper.table2 import chosen_records

    context = dataclasses.replace(job.context, experiment="ablations")
    rows = read_results(context.results)
    for cell in job.cells:
        if cell not in job.paper.table2:
            continue
        known = bool(chosen_records(job.paper, cell, job.context))
        rule = job.paper.rule_of_ablations(cell)
        every, missing = variants(job.paper, cell), missing_variants(job.paper, cell, rows)
        said = f"{len(every)} variants from {len(rule.seeds)} seeds, {len(every) - len(missing)} of them done"
        job.console.say(f"ablations of {cell.slug}: {said}" + ("" if known else "; no chosen setting yet"))
        if known and missing and not dry_run:
            graph = job.load(cell.dataset)
            runs = len(missing) * len(rule.seeds)
            with job.console.progress(cell.slug, runs * rule.final_epochs) as done:
                found = ablate(job.paper, cell, graph, context, missing, done)
            context.add(found)


def background(job: Job, dry_run: bool) -> None:
    """Train the chosen runs of labelled datasets again, and keep what every calibration starts from."""
    from experiments.paper.table2 import artifact_path, chosen_records, rerun

    context = dataclasses.replace(job.context, experiment="background")
    for cell in job.cells:
        for record in chosen_records(job.paper, cell, job.context) if _has_background(cell) else ():
            path = artifact_path(context, cell.slug, record["seed"])
            job.console.say(f"background of {cell.slug}, seed {record['seed']}: {'done' if path.exists() else path}")
            if not dry_run and not path.exists():
                artifact = rerun(job.paper, cell, job.load(cell.dataset), context, record, keep=background_artifact)
                artifact.write(path)
                context.add(artifact.rows(str(path.relative_to(context.results))))


def _has_background(cell: Cell) -> bool:
    return cell.objective == "stay-positive" and "nll" in dict(cell.published)


def theorems(job: Job, dry_run: bool) -> None:
    """Curves of the theorems' costs."""
    from experiments.paper import theorems as curves
    from experiments.speed.timing import Workload, rows_of_figures
    from staypositive.models import MODELS
    from staypositive.run.provenance import device_name

    models = ("distmult", "rescal") if job.quick else tuple(MODELS)
    points = sum(map(len, curves.SWEEPS.values())) * len(models)
    job.console.say(
        f"theorems: {points} sums by Theorem 1 and by enumeration, peak memory for {len(models)} models, and epochs "
        f"with 0 to {curves.RATIOS[-1]} negatives on {TIMED}"
    )
    if dry_run:
        return
    figures = []
    with job.console.progress("sums", points) as done:
        for figure in curves.sums(models):
            figures.append(figure)
            done(1)
    with job.console.progress("memory", len(models)) as done:
        for model in models:
            figures.append(curves.memory(1000, 10, model, 32))
            done(1)
    graph = job.load(TIMED)
    figures += curves.epochs(Workload.of_graph(graph), "distmult", 100, 1415)
    rows = rows_of_figures(figures, device_name(job.context.device), job.context.command, experiment="theorems")
    job.context.add(rows)
    plot_sums([f for f in figures if "ratio" in f], job)


def plot_sums(figures: list[dict[str, Any]], job: Job) -> None:
    """Draw seconds by Theorem 1 and by enumeration against each size, one line per model."""
    from experiments.plots import label_ticks, pyplot, save_figure

    plt = pyplot()
    sizes = {"n_entities": ("entities", "|E|"), "n_relations": ("relations", "|R|"), "dim": ("dim", "d")}
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained", sharey=True)
    colours = plt.get_cmap("tab10").colors
    for axis, (grown, (key, label)) in zip(axes, sizes.items(), strict=True):
        own = [f for f in figures if f["grown"] == grown]
        for colour, model in zip(colours, dict.fromkeys(f["model"] for f in own), strict=False):
            line = [f for f in own if f["model"] == model]
            x = [f[key] for f in line]
            axis.plot(x, [f["enumeration_seconds"] for f in line], "--", color=colour)
            axis.plot(x, [f["theorem_seconds"] for f in line], "-", color=colour, label=model, marker=".")
        axis.set(xscale="log", yscale="log", xlabel=label)
        label_ticks(axis, sorted({f[key] for f in own}))
    axes[0].set_ylabel("seconds: Theorem 1 (—), enumeration (- -)")
    axes[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    save_figure(figure, job.plots / "theorem1.png", dpi=110)


def _record(job: Job, experiment: str, figures: list[dict[str, Any]], units: dict[str, str], graph: Any) -> None:
    """Add timed figures to the results."""
    if not figures:
        raise InputError(f"{experiment} measured nothing")
    context = dataclasses.replace(job.context, experiment=experiment + ("-quick" if job.quick else ""))
    context.add(
        context.columns(
            graph, model=f["model"], objective="negative-sampling", dim=f["dim"], metric=metric,
            value=float(f[metric]), unit=unit, negatives_drawn=f["negatives"],
            setting=f"{f['engine']}, {f['sampler']} sampler, batch {f['batch']}, negatives {f['negatives']}",
        )
        for f in figures
        for metric, unit in units.items()
    )  # fmt: skip
