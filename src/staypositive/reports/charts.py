"""Charts as SVG, drawn by hand: line, dots, density, reliability, scatter, bars and intervals.

Colours are classes (`c0`, `c1`, ...) of the page's style, so that a chart follows its theme. Lines are named where
they end rather than in a legend. Each function takes plain numbers and returns one `<svg>`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from staypositive.reports.frame import Frame, Label, colour, log_ticks, plain, ticks
from staypositive.reports.html import Html, join, number, tag


class Series(NamedTuple):
    """A named line of points; `colour` is a number of the style's palette."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: int = 0


class Point(NamedTuple):
    """One mark: where, in which colour, and what to say when pointed at."""

    x: float
    y: float
    colour: int
    title: str


class Interval(NamedTuple):
    """A row of an interval chart: a value, and how far it reaches to both sides."""

    label: str
    value: float
    low: float
    high: float


class Bins(NamedTuple):
    """Stated probability and observed frequency of bins, how many triples each holds, and 95% intervals."""

    name: str
    stated: Sequence[float]
    observed: Sequence[float]
    counts: Sequence[int]
    lows: Sequence[float]
    highs: Sequence[float]
    colour: int = 0


def line_chart(
    series: Sequence[Series], title: str, *, points: Sequence[Point] = (), labels: Sequence[str] | None = None,
    mark: tuple[float, str] | None = None, dots: bool = False, log_x: bool = False, zero: bool = False,
    y_range: tuple[float, float] | None = None, width: int = 320, height: int = 170, label: bool = True,
) -> Html:  # fmt: skip
    """Draw lines, each named at its end if `label`, and points.

    `mark` is an x with a word, drawn as an upright line; `labels` name the places 0, 1, ... of x.
    """
    xs = [*(x for s in series for x in s.xs), *(p.x for p in points)]
    low, high = (-0.5, len(labels) - 0.5) if labels else (min(xs), max(xs))
    if low == high:
        low, high, log_x = low - 0.5, high + 0.5, False
    names = label and len(series) > 1
    margins = (14, 14 + (max(len(s.name) for s in series) * 6 if names else 0), 24, 44)
    bounds = y_range or _padded([*(y for s in series for y in s.ys), *(p.y for p in points)], zero)
    frame = Frame((low, high), bounds, width, height, margins, log_x)
    at: Sequence[float] = range(len(labels)) if labels else log_ticks(low, high) if log_x else ticks(low, high)
    parts = [frame.axes(at, ticks(*bounds, 4), lambda x: labels[round(x)] if labels else plain(x), plain)]
    if mark is not None:
        parts.append(_upright(frame, *mark))
    for one in series:
        parts.append(tag("path", d=frame.path(one.xs, one.ys), class_=f"line {colour(one.colour)}"))
        for x, y in zip(one.xs, one.ys, strict=True):
            if dots and math.isfinite(y):
                parts.append(_mark(frame, x, y, one.colour, f"{one.name} at {plain(x)}: {number(y)}", "dot", 2.4))
    parts += [_mark(frame, *point, "bubble", 3.6) for point in sorted(points, key=lambda point: point.colour)]
    if names:
        parts.append(_names(frame, series))
    return frame.svg(*parts, title=title)


def _padded(values: Sequence[float], zero: bool) -> tuple[float, float]:
    """Return an axis with some room at both ends; with `zero` it holds 0, and has no room below that."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min([*finite, 0.0] if zero else finite), max([*finite, 0.0] if zero else finite)
    pad = 0.06 * (high - low) or 0.5
    return (low if zero and low == 0 else low - pad), high + pad


def _mark(frame: Frame, x: float, y: float, tone: int, said: str, kind: str, radius: float) -> Html:
    place = {"cx": frame.x(x), "cy": frame.y(y), "r": radius}
    return tag("circle", tag("title", said), **place, class_=f"{kind} {colour(tone)}")


def _upright(frame: Frame, x: float, word: str) -> Html:
    place, base = frame.x(x), frame.height - frame.bottom
    late = place > frame.width - frame.right - 60
    text = tag("text", word, x=place + (-4 if late else 4), y=frame.top + 3, class_=f"tick{' end' if late else ''}")
    return join([tag("line", x1=place, x2=place, y1=frame.top - 6, y2=base, class_="mark"), text])


def _names(frame: Frame, series: Sequence[Series]) -> Html:
    """Name lines where they end, moved apart where they end together."""
    ends = sorted((frame.y(next(y for y in reversed(s.ys) if math.isfinite(y))), i) for i, s in enumerate(series))
    parts, lowest = [], -math.inf
    for y, i in ends:
        lowest, one = max(y, lowest + 12), series[i]
        place = {"x": frame.x(one.xs[-1]) + 5, "y": lowest + 3.5}
        parts.append(tag("text", one.name, **place, class_=f"name {colour(one.colour)}"))
    return join(parts)


def density_chart(series: Sequence[Series], title: str, *, at: Sequence[float], x_label: Label) -> Html:
    """Draw densities as filled curves, each named where it stands out most; heights have no unit but compare."""
    xs = [x for s in series for x in s.xs]
    high = max(y for s in series for y in s.ys) or 1.0
    frame = Frame((min(xs), max(xs)), (0, 1.18 * high), margins=(8, 12, 24, 12))
    parts = [frame.axes(at, [], x_label, plain)]
    for one in series:
        line = frame.path(one.xs, one.ys)
        closed = f"{line}L{frame.x(one.xs[-1])} {frame.y(0)}L{frame.x(one.xs[0])} {frame.y(0)}Z"
        parts.append(tag("path", d=closed, class_=f"area {colour(one.colour)}"))
        parts.append(tag("path", d=line, class_=f"line {colour(one.colour)}"))
    places: list[tuple[float, float]] = []
    for one in series:
        others = [s.ys for s in series if s is not one] or [[0.0] * len(one.ys)]
        peak = max(range(len(one.ys)), key=lambda i: one.ys[i] - max(ys[i] for ys in others))
        x, y = frame.x(one.xs[peak]), frame.y(one.ys[peak]) - 5
        half = 3.2 * len(one.name)
        x = min(max(x, frame.left + half), frame.width - frame.right - half)
        while any(abs(x - u) < 2 * half and abs(y - v) < 12 for u, v in places):
            y += 13
        places.append((x, y))
        parts.append(tag("text", one.name, x=x, y=y, class_=f"name middle {colour(one.colour)}"))
    return frame.svg(*parts, title=title)


def reliability_chart(curves: Sequence[Bins], title: str, *, size: int = 320, even: bool = False) -> Html:
    """Draw observed frequency against stated probability, with intervals.

    A dot's area is its share of triples, unless dots are `even`.
    """
    frame = Frame((0, 1), (0, 1), size, size, (26, 14, 40, 44))
    at = [0.0, 0.25, 0.5, 0.75, 1.0]
    parts = [
        frame.axes(at, at, "{:.0%}".format, "{:.0%}".format),
        tag("line", x1=frame.x(0), y1=frame.y(0), x2=frame.x(1), y2=frame.y(1), class_="ideal"),
        tag("text", "stated probability", x=frame.x(0.5), y=size - 6, class_="tick middle"),
        tag("text", "observed frequency", x=2, y=10, class_="tick"),
    ]
    names = []
    for row, bins in enumerate(curves):
        tone = colour(bins.colour)
        parts.append(tag("path", d=frame.path(bins.stated, bins.observed), class_=f"faint {tone}"))
        for x, low, high in zip(bins.stated, bins.lows, bins.highs, strict=True):
            ends = {"x1": frame.x(x), "x2": frame.x(x), "y1": frame.y(low), "y2": frame.y(high)}
            parts.append(tag("line", **ends, class_=f"whisker {tone}"))
        for stated, observed, count in zip(bins.stated, bins.observed, bins.counts, strict=True):
            said = f"{bins.name}: stated {stated:.0%}, true {observed:.0%}, {count:,} triples"
            radius = 4.0 if even else round(2 + 14 * math.sqrt(count / sum(bins.counts)), 1)
            parts.append(_mark(frame, stated, observed, bins.colour, said, "bubble", radius))
        y = frame.y(0) - 12 - 15 * (len(curves) - 1 - row)
        names.append(tag("text", bins.name, x=frame.x(1) - 4, y=y, class_=f"name end {tone}"))
    return frame.svg(*parts, *names, title=title)


def scatter(points: Sequence[Point], names: Sequence[tuple[Point, str]], title: str) -> Html:
    """Draw points, and write some of them beside their mark where there is room."""
    xs, ys = [p.x for p in points], [p.y for p in points]
    frame = Frame((min(xs), max(xs)), (min(ys), max(ys)), 960, 560, (16, 16, 16, 16))
    parts = [_mark(frame, *point, "point", 3) for point in points]
    taken: list[tuple[float, float, float, float]] = []
    for point, name in names:
        x, y, wide = frame.x(point.x), frame.y(point.y), 6.4 * len(name)
        late = x + wide + 8 > frame.width
        box = (x - wide - 6, y - 7, x - 4, y + 7) if late else (x + 4, y - 7, x + wide + 6, y + 7)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            continue
        taken.append(box)
        place = {"x": x - 6, "class_": "place end"} if late else {"x": x + 6, "class_": "place"}
        parts.append(tag("circle", cx=x, cy=y, r=3.4, class_=f"ring {colour(point.colour)}"))
        parts.append(tag("text", name, y=y + 4, **place))
    return frame.svg(*parts, title=title)


def interval_chart(rows: Sequence[Interval], title: str) -> Html:
    """Draw a dot and its reach for each row, all over one axis; the label stands at the left."""
    longest = max(len(shortened(row.label)) for row in rows)
    bounds = min(0.0, *(row.low for row in rows)), max(0.0, *(row.high for row in rows))
    margins = (6, 12, 24, min(190, 10 + 7 * longest))
    frame = Frame(bounds, (0, len(rows)), 380, 25 * len(rows) + margins[0] + margins[2], margins)
    parts = [frame.axes(ticks(*bounds), [], plain, plain)]
    zero = frame.x(0)
    parts.append(tag("line", x1=zero, x2=zero, y1=frame.top, y2=frame.height - frame.bottom, class_="mark"))
    for place, row in enumerate(rows):
        middle = len(rows) - place - 0.5
        y = frame.y(middle)
        said = f"{row.label}: {number(row.value)}, from {number(row.low)} to {number(row.high)}"
        parts += [
            tag("text", shortened(row.label), x=frame.left - 8, y=y + 4, class_="row end"),
            tag("line", x1=frame.x(row.low), x2=frame.x(row.high), y1=y, y2=y, class_="reach c0"),
            _mark(frame, row.value, middle, 0, said, "dot", 3.5),
        ]
    return frame.svg(*parts, title=title)


def bar(share: float, index: int = 0, *, width: int = 120, title: str = "") -> Html:
    """Return a bar for a table's cell, of a share of its width."""
    long, kind = round(width * min(max(share, 0.0), 1.0), 1), f"fill {colour(index)}"
    full = tag("rect", x=0, y=0, width=width, height=8, rx=2, class_="track")
    part = tag("rect", x=0, y=0, width=long, height=8, rx=2, class_=kind)
    said = tag("title", title) if title else Html()
    return tag("svg", said, full, part, viewBox=f"0 0 {width} 8", class_="bar", aria_hidden="true")


def shortened(text: str, most: int = 26) -> str:
    """Return a label that fits beside a chart; its middle goes first, since paths differ at their ends.

    >>> shortened("/people/person/nationality/of/somebody", 20)
    '/people/p…f/somebody'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-(most - 1 - half) :]}"
