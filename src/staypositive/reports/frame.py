"""The plane that charts are drawn on: places of numbers, round ticks, axes, and the names of colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from staypositive.reports.html import Html, join, tag

COLOURS = 8  # of the style; later series are grey
Label = Callable[[float], str]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers that span an interval: steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0, 0.93), ticks(-3, 12, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8], [0.0, 5.0, 10.0])
    """
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass
class Frame:
    """The plane of a chart: the ranges of both axes, and how many units of the drawing they take."""

    xs: tuple[float, float]
    ys: tuple[float, float]
    width: int = 320
    height: int = 170
    margins: tuple[int, int, int, int] = (12, 14, 24, 40)
    log_x: bool = False

    def __post_init__(self) -> None:
        self.top, self.right, self.bottom, self.left = self.margins

    def x(self, value: float) -> float:
        """Return the place of a number from the left."""
        place, low, high = (math.log(part) if self.log_x else part for part in (value, *self.xs))
        share = (place - low) / ((high - low) or 1.0)
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, value: float) -> float:
        """Return the place of a number from the top."""
        low, high = self.ys
        share = (value - low) / ((high - low) or 1.0)
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """Return the path through some points; it breaks where a number is not finite."""
        words, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if math.isfinite(y):
                words.append(f"{pen}{self.x(x)} {self.y(y)}")
            pen = "L" if math.isfinite(y) else "M"
        return "".join(words)

    def axes(self, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: Label, y_label: Label) -> Html:
        base, parts = self.height - self.bottom, []
        for value in y_ticks:
            y = self.y(value)
            parts.append(tag("line", x1=self.left, x2=self.width - self.right, y1=y, y2=y, class_="grid"))
            parts.append(tag("text", y_label(value), x=self.left - 6, y=y + 3.5, class_="tick end"))
        for value in x_ticks:
            x = self.x(value)
            parts.append(tag("line", x1=x, x2=x, y1=base, y2=base + 4, class_="axis"))
            parts.append(tag("text", x_label(value), x=x, y=base + 15, class_="tick middle"))
        parts.append(tag("line", x1=self.left, x2=self.width - self.right, y1=base, y2=base, class_="axis"))
        return join(parts)

    def svg(self, *content: object, title: str) -> Html:
        """Return the whole drawing; `title` is what it says to those who cannot see it."""
        return tag("svg", *content, viewBox=f"0 0 {self.width} {self.height}", role="img", aria_label=title)


def colour(index: int) -> str:
    """Return the class of a colour; those past the palette are grey."""
    return f"c{index}" if 0 <= index < COLOURS else "grey"


def plain(value: float) -> str:
    """Return a tick's number without trailing zeros.

    >>> [plain(x) for x in (0.2, -1.0, 2000.0, 1e-05)]
    ['0.2', '−1', '2,000', '1e−05']
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten between two numbers; where those are few, 2 and 5 times such powers too."""
    powers = [10.0**p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for factors in ((1,), (1, 2, 5)):
        found = [round(f * p, 12) for p in powers for f in factors if low <= f * p * (1 + 1e-9) and f * p <= high]
        if len(found) > 1:
            return found
    return [low, high]
