"""Charts as SVG, drawn by hand: line, dots, density, reliability, scatter, bars and intervals.

Colours are classes (`c0`, `c1`, ...) of the page's style, so that a chart follows its theme. Lines are named where
they end rather than in a legend. Each function takes plain numbers and returns one `<svg>`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from staypositive.reports.frame import Frame, Label, colour, log_ticks, plain, ticks
from staypositive.reports.html import Html, join, number, tag


@dataclass(frozen=True)
class Series:
    """A named line of points; `colour` is a number of the style's palette."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: int = 0


@dataclass(frozen=True)
class Point:
    """One mark: where, in which colour, and what to say when pointed at."""

    x: float
    y: float
    colour: int
    title: str


@dataclass(frozen=True)
class Interval:
    """A row of an interval chart: a value, and how far it reaches to both sides."""

    label: str
    value: float
    low: float
    high: float


def line_chart(
    series: Sequence[Series],
    title: str,
    *,
    mark: tuple[float, str] | None = None,
    dots: bool = False,
    log_x: bool = False,
    zero: bool = False,
    y_range: tuple[float, float] | None = None,
    width: int = 320,
    height: int = 170,
    label: bool = True,
) -> Html:
    """Draw lines, each named at its end; `mark` is an x with a word, drawn as an upright line."""
    xs = [x for s in series for x in s.xs]
    ys = [y for s in series for y in s.ys if math.isfinite(y)] or [0.0]
    low, high = y_range or (min([*ys, 0.0] if zero else ys), max([*ys, 0.0] if zero else ys))
    pad = 0.06 * (high - low) or 0.5
    names = label and len(series) > 1
    margins = (14, 14 + (max(len(s.name) for s in series) * 6 if names else 0), 24, 44)
    span = (min(xs), max(xs))
    bounds = y_range or (low if zero and low == 0 else low - pad, high + pad)
    frame = Frame(span, bounds, width=width, height=height, margins=margins, log_x=log_x)
    at = log_ticks(*span) if log_x else ticks(*span)
    parts = [frame.axes(at, ticks(*bounds, 4), plain, plain)]
    if mark is not None:
        parts.append(_upright(frame, *mark))
    for one in series:
        parts.append(tag("path", d=frame.path(one.xs, one.ys), class_=f"line {colour(one.colour)}"))
        if dots:
            parts += [_dot(frame, x, y, one) for x, y in zip(one.xs, one.ys, strict=True) if math.isfinite(y)]
    if names:
        parts.append(_names(frame, series))
    return frame.svg(*parts, title=title)


def _dot(frame: Frame, x: float, y: float, one: Series) -> Html:
    said = tag("title", f"{one.name} at {plain(x)}: {number(y)}")
    return tag("circle", said, cx=frame.x(x), cy=frame.y(y), r=2.4, class_=f"dot {colour(one.colour)}")


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
        lowest = max(y, lowest + 12)
        one = series[i]
        x = frame.x(one.xs[-1]) + 5
        parts.append(tag("text", one.name, x=x, y=lowest + 3.5, class_=f"name {colour(one.colour)}"))
    return join(parts)


def density_chart(
    series: Sequence[Series], title: str, *, at: Sequence[float], x_label: Label, width: int = 320, height: int = 170
) -> Html:
    """Draw densities as filled curves, each named where it stands out most; heights have no unit but compare."""
    xs = [x for s in series for x in s.xs]
    high = max(y for s in series for y in s.ys) or 1.0
    frame = Frame((min(xs), max(xs)), (0, 1.18 * high), width=width, height=height, margins=(8, 12, 24, 12))
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


@dataclass(frozen=True)
class Bins:
    """Stated probability and observed frequency of bins, with how many triples each holds."""

    name: str
    stated: Sequence[float]
    observed: Sequence[float]
    counts: Sequence[int]
    lows: Sequence[float]
    highs: Sequence[float]
    """The 95% interval of each observed frequency."""
    colour: int = 0


def reliability_chart(curves: Sequence[Bins], title: str, *, size: int = 320) -> Html:
    """Draw observed frequency against stated probability, with intervals; a dot's area is its share of triples."""
    frame = Frame((0, 1), (0, 1), width=size, height=size, margins=(26, 14, 40, 44))
    at = [0.0, 0.25, 0.5, 0.75, 1.0]

    def share(value: float) -> str:
        return f"{value:.0%}"

    base = frame.height
    parts = [
        frame.axes(at, at, share, share),
        tag("line", x1=frame.x(0), y1=frame.y(0), x2=frame.x(1), y2=frame.y(1), class_="ideal"),
        tag("text", "stated probability", x=frame.x(0.5), y=base - 6, class_="tick middle"),
        tag("text", "how often it was true", x=2, y=10, class_="tick"),
    ]
    for bins in curves:
        parts.append(tag("path", d=frame.path(bins.stated, bins.observed), class_=f"faint {colour(bins.colour)}"))
        total = sum(bins.counts)
        for x, low, high in zip(bins.stated, bins.lows, bins.highs, strict=True):
            place = frame.x(x)
            ends = {"y1": frame.y(low), "y2": frame.y(high)}
            parts.append(tag("line", x1=place, x2=place, **ends, class_=f"whisker {colour(bins.colour)}"))
        for stated, observed, count in zip(bins.stated, bins.observed, bins.counts, strict=True):
            words = f"{bins.name}: stated {stated:.0%}, true {observed:.0%}, {count:,} triples"
            radius = round(2 + 14 * math.sqrt(count / total), 1)
            parts.append(
                tag("circle", tag("title", words), cx=frame.x(stated), cy=frame.y(observed), r=radius,
                    class_=f"bubble {colour(bins.colour)}")
            )  # fmt: skip
    for row, bins in enumerate(curves):
        y = frame.y(0) - 12 - 15 * (len(curves) - 1 - row)
        parts.append(tag("text", bins.name, x=frame.x(1) - 4, y=y, class_=f"name end {colour(bins.colour)}"))
    return frame.svg(*parts, title=title)


def scatter(
    points: Sequence[Point], names: Sequence[tuple[Point, str]], title: str, *, width: int = 960, height: int = 560
) -> Html:
    """Draw points, and write some of them beside their mark where there is room."""
    xs, ys = [p.x for p in points], [p.y for p in points]
    frame = Frame((min(xs), max(xs)), (min(ys), max(ys)), width=width, height=height, margins=(16, 16, 16, 16))
    parts = [
        tag(
            "circle", tag("title", p.title), cx=frame.x(p.x), cy=frame.y(p.y), r=3, class_=f"point {colour(p.colour)}"
        )
        for p in points
    ]
    taken: list[tuple[float, float, float, float]] = []
    for point, name in names:
        x, y, wide = frame.x(point.x), frame.y(point.y), 6.4 * len(name)
        late = x + wide + 8 > width
        box = (x - wide - 6, y - 7, x - 4, y + 7) if late else (x + 4, y - 7, x + wide + 6, y + 7)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
            continue
        taken.append(box)
        place = {"x": x - 6, "class_": "place end"} if late else {"x": x + 6, "class_": "place"}
        parts.append(tag("circle", cx=x, cy=y, r=3.4, class_=f"ring {colour(point.colour)}"))
        parts.append(tag("text", name, y=y + 4, **place))
    return frame.svg(*parts, title=title)


def interval_chart(rows: Sequence[Interval], title: str, *, width: int = 380, row_height: int = 25) -> Html:
    """Draw a dot and its reach for each row, all over one axis; the label stands at the left."""
    longest = max(len(shortened(row.label)) for row in rows)
    bounds = min(0.0, *(row.low for row in rows)), max(0.0, *(row.high for row in rows))
    margins = (6, 12, 24, min(190, 10 + 7 * longest))
    height = row_height * len(rows) + margins[0] + margins[2]
    frame = Frame(bounds, (0, len(rows)), width=width, height=height, margins=margins)
    parts = [frame.axes(ticks(*bounds), [], plain, plain)]
    zero = frame.x(0)
    parts.append(tag("line", x1=zero, x2=zero, y1=frame.top, y2=height - frame.bottom, class_="mark"))
    for place, row in enumerate(rows):
        y = frame.y(len(rows) - place - 0.5)
        said = tag("title", f"{row.label}: {number(row.value)}, from {number(row.low)} to {number(row.high)}")
        parts += [
            tag("text", shortened(row.label), x=frame.left - 8, y=y + 4, class_="row end"),
            tag("line", x1=frame.x(row.low), x2=frame.x(row.high), y1=y, y2=y, class_="reach c0"),
            tag("circle", said, cx=frame.x(row.value), cy=y, r=3.5, class_="dot c0"),
        ]
    return frame.svg(*parts, title=title)


def bar(share: float, index: int = 0, *, width: int = 120, title: str = "") -> Html:
    """Return a bar for a table's cell, of a share of its width."""
    full = tag("rect", x=0, y=0, width=width, height=8, rx=2, class_="track")
    part = tag("rect", x=0, y=0, width=round(width * min(max(share, 0.0), 1.0), 1), height=8, rx=2,
               class_=f"fill {colour(index)}")  # fmt: skip
    said = tag("title", title) if title else Html()
    return tag("svg", said, full, part, viewBox=f"0 0 {width} 8", class_="bar", aria_hidden="true")


def shortened(text: str, most: int = 26) -> str:
    """Return a label that fits beside a chart; its middle goes first, since paths differ at their ends.

    >>> shortened("/people/person/nationality/of/somebody", 20)
    '/people/p…f/somebody'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-(most - 1 - half) :]}"


def dot_chart(
    dots: Sequence[Point],
    title: str,
    *,
    line: Series | None = None,
    labels: Sequence[str] | None = None,
    log_x: bool = False,
    width: int = 320,
    height: int = 190,
) -> Html:
    """Draw dots over two axes, with a line among them if there is one; `labels` name the places 0, 1, ... of x."""
    xs, ys = [dot.x for dot in dots], [dot.y for dot in dots]
    low, high = (-0.5, len(labels) - 0.5) if labels else (min(xs), max(xs))
    if low == high:
        low, high, log_x = low - 0.5, high + 0.5, False
    pad = 0.08 * (max(ys) - min(ys)) or 0.5
    bounds = min(ys) - pad, max(ys) + pad
    frame = Frame((low, high), bounds, width=width, height=height, margins=(10, 16, 24, 48), log_x=log_x)
    at: Sequence[float] = range(len(labels)) if labels else log_ticks(low, high) if log_x else ticks(low, high)
    parts = [frame.axes(at, ticks(*bounds, 4), lambda x: labels[round(x)] if labels else plain(x), plain)]
    if line is not None:
        parts.append(tag("path", d=frame.path(line.xs, line.ys), class_=f"line {colour(line.colour)}"))
    for dot in sorted(dots, key=lambda dot: dot.colour):
        place = {"cx": frame.x(dot.x), "cy": frame.y(dot.y), "r": 3.6}
        parts.append(tag("circle", tag("title", dot.title), **place, class_=f"bubble {colour(dot.colour)}"))
    return frame.svg(*parts, title=title)
