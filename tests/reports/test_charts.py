"""Charts: numbers land where they should, and the SVG is well-formed XML whatever the labels."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from staypositive.reports.charts import (
    Bins,
    Interval,
    Point,
    Series,
    bar,
    density_chart,
    interval_chart,
    line_chart,
    reliability_chart,
    scatter,
)
from staypositive.reports.frame import Frame, colour, log_ticks, plain, ticks
from staypositive.reports.html import Html, Number, join, table, tag

EVIL = '<script>alert("1")</script>&\'"'


def drawn(svg: str) -> ET.Element:
    """Parse a drawing; every mark must lie inside its frame."""
    root = ET.fromstring(svg)
    _, _, width, height = (float(part) for part in root.attrib["viewBox"].split())
    for mark in root.iter():
        for key, limit in (
            ("cx", width),
            ("x1", width),
            ("x2", width),
            ("cy", height),
            ("y1", height),
            ("y2", height),
        ):
            if key in mark.attrib:
                assert 0 <= float(mark.attrib[key]) <= limit, (mark.tag, mark.attrib)
    return root


def test_a_frame_maps_corners_to_corners() -> None:
    frame = Frame((2, 4), (-1, 1), width=100, height=50, margins=(5, 10, 15, 20))
    assert [frame.x(2), frame.x(3), frame.x(4)] == pytest.approx([20, 55, 90])
    assert [frame.y(-1), frame.y(0), frame.y(1)] == pytest.approx([35, 20, 5])
    logarithmic = Frame((1, 100), (0, 1), width=100, height=50, margins=(5, 10, 15, 20), log_x=True)
    assert logarithmic.x(10) == pytest.approx(55)
    assert Frame((3, 3), (1, 1)).x(3) == Frame((3, 3), (1, 1)).left  # one point is no division by zero


def test_a_path_breaks_where_a_number_is_missing() -> None:
    frame = Frame((0, 3), (0, 1))
    path = frame.path([0, 1, 2, 3], [0.0, float("nan"), 1.0, 0.5])
    assert re.sub(r"[\d. ]", "", path) == "MML"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-7.3, 2.1), (1e-6, 3e-6), (0, 123456), (5, 5)])
def test_ticks_are_round_few_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 6
    assert all(low - 1e-9 <= tick <= max(high, low + 1) + 1e-9 for tick in found)
    steps = {round((b - a) / (high - low), 9) for a, b in pairwise(found)}
    assert len(steps) <= 1


def test_ticks_of_a_log_axis() -> None:
    assert log_ticks(1, 5198) == pytest.approx([1, 10, 100, 1000])
    assert log_ticks(0.04542, 0.9712) == pytest.approx([0.05, 0.1, 0.2, 0.5])
    assert log_ticks(1.1, 1.9) == pytest.approx([1.1, 1.9])


def test_every_chart_is_well_formed_whatever_the_labels() -> None:
    series = [Series(EVIL, [1, 2, 3], [0.5, float("nan"), 0.7], 0), Series("b", [1, 2, 3], [0.5, 0.6, 0.69], 20)]
    root = drawn(line_chart(series, EVIL, mark=(2, EVIL), dots=True))
    assert root.attrib["aria-label"] == EVIL
    assert [t.text for t in root.iter("text") if t.attrib["class"].startswith("name")] == [EVIL, "b"]
    assert len(list(root.iter("circle"))) == 5
    drawn(
        density_chart(
            [Series(EVIL, [0, 1], [0.2, 0.4]), Series("c", [0, 1], [0.2, 0.4])], EVIL, at=[0], x_label=plain
        )
    )
    bins = Bins(EVIL, [0.1, 0.9], [0.0, 1.0], [3, 1], [0.0, 0.2], [0.5, 1.0])
    root = drawn(reliability_chart([bins], EVIL))
    assert [float(c.attrib["r"]) for c in root.iter("circle")] == [
        14.1,
        9.0,
    ]  # areas as 3 to 1, past a least radius of 2
    point = Point(0, 0, 0, EVIL)
    root = drawn(scatter([point, Point(1, 1, 9, "x")], [(point, EVIL), (point, "hidden")], EVIL))
    assert [t.text for t in root.iter("text")] == [EVIL]  # the second name has no room
    root = drawn(interval_chart([Interval(EVIL, 0.1, -0.2, 0.4), Interval("b", 0.0, 0.0, 0.0)], EVIL))
    assert len(list(root.iter("circle"))) == 2
    dots = [Point(1, 0.1, 0, EVIL), Point(10, 0.2, 1, EVIL)]
    root = drawn(line_chart([Series("a", [1, 10], [0.1, 0.2])], EVIL, points=dots, log_x=True))
    assert len(list(root.iter("path"))) == 1
    root = drawn(line_chart([], EVIL, points=[Point(0, 0.1, 0, "a")], labels=[EVIL, "b"]))
    assert [t.text for t in root.iter("text") if "middle" in t.attrib["class"]] == [EVIL, "b"]
    drawn(line_chart([], EVIL, points=[Point(3, 0.1, 0, "alone")], log_x=True))
    drawn(bar(2.0, title=EVIL))


def test_a_bar_is_its_share() -> None:
    widths = [[float(r.attrib["width"]) for r in ET.fromstring(bar(share)).iter("rect")] for share in (0.25, -1, 7)]
    assert widths == [[120, 30], [120, 0], [120, 120]]


def test_colours_past_the_palette_are_grey() -> None:
    assert [colour(0), colour(7), colour(8), colour(-1)] == ["c0", "c7", "grey", "grey"]


def test_text_is_escaped_once_and_markup_is_kept() -> None:
    inner = tag("b", EVIL, title=EVIL)
    assert "<script" not in inner
    whole = tag("p", inner, EVIL)
    assert ET.fromstring(whole).find("b").text == EVIL
    assert ET.fromstring(whole).find("b").attrib["title"] == EVIL
    assert join([Html("<i></i>"), "<"]) == "<i></i>&lt;"
    assert tag("meta") == "<meta>"


def test_a_table_puts_numbers_to_the_right() -> None:
    root = ET.fromstring(table(["name", "n", "mixed"], [["<a>", 1234, Number("5%")], ["b", 0.5, "c"]]))
    assert [th.attrib.get("class") for th in root.iter("th")] == [None, "number", None]
    assert [td.text for td in root.iter("td")] == ["<a>", "1,234", "5%", "b", "0.500", "c"]
