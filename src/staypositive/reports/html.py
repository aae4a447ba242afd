"""Markup that cannot be broken by what is put into it: text is escaped, unless a function here made it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from staypositive.text import visible

SHOWN = 24  # rows of a table before the rest is folded away


class Html(str):
    """Text that is markup already."""


class Number(str):
    """A number as people read it: it stands to the right, and is never broken."""


Content = Sequence[object]  # of a section: the sentences that say what is seen, then what is shown


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; children and attributes that are no `Html` are escaped, attributes of None are left out.

    A trailing underscore is dropped from an attribute's name, other underscores become hyphens.

    >>> print(tag("p", "a < b", tag("b", 1.5), class_="x", data_name='"'))
    <p class="x" data-name="&quot;">a &lt; b<b>1.5</b></p>
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    said = "".join(f' {key}="{_escaped(value)}"' for key, value in given.items())
    return Html(f"<{name}{said}>" if name == "meta" else f"<{name}{said}>{join(children)}</{name}>")


def join(parts: Iterable[object]) -> Html:
    """Return parts one after the other; those that are no `Html` are escaped."""
    return Html("".join(part if isinstance(part, Html) else _escaped(part) for part in parts))


def _escaped(value: object) -> str:
    return html.escape(visible(str(value)))  # what would turn or hide the text around it is spelt out


def number(value: float | int | None) -> Number:
    """Return a number as people read it.

    >>> [number(x) for x in (12345, 1234.5, 0.68653, 12.345, 0.00012, -3.0, None)]
    ['12,345', '1,234', '0.687', '12.3', '0.00012', '−3.00', '–']
    """
    if value is None or value != value:
        return Number("–")
    if isinstance(value, int) or abs(value) >= 100:
        text = f"{value:,.0f}"
    elif abs(value) >= 10:
        text = f"{value:.1f}"
    else:
        text = f"{value:.3g}" if 0 < abs(value) < 0.01 else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"
    return Number(text.replace("-", "−"))


def percent(probability: float) -> Number:
    """Return a probability in per cent, without claiming that anything is certain.

    >>> [percent(p) for p in (0.5, 0.0123, 0.00004, 0.99986, 1e-7, 1.0)]
    ['50%', '1.2%', '0.004%', '99.99%', '<0.001%', '>99.999%']
    """
    if not 1e-5 <= probability <= 1 - 1e-5:
        return Number("<0.001%" if probability < 0.5 else ">99.999%")
    share = 100 * probability
    rest = min(share, 100 - share)  # one digit of what is left to 0% or 100%
    digits = 3 if rest < 0.0095 else 2 if rest < 0.095 else 1 if share < 9.95 or share > 99.05 else 0
    return Number(f"{share:.{digits}f}%")


def table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> Html:
    """Return a table; numbers stand to the right, and so does the head of a column of numbers."""
    lines = [[number(cell) if isinstance(cell, float | int) else cell for cell in row] for row in rows]
    head = []
    for place, title in enumerate(header):
        is_numeric = bool(lines) and all(isinstance(line[place], Number) for line in lines)
        head.append(tag("th", title, scope="col", class_="number" if is_numeric else None))
    body = [
        tag("tr", *(tag("td", cell, class_="number" if isinstance(cell, Number) else None) for cell in line))
        for line in lines
    ]
    inner = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", inner, class_="scroll")


def folded_table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> list[Html]:
    """Return the table of the first rows, and the rest folded away; all of it is printed."""
    rest = rows[SHOWN:]
    more = [tag("details", tag("summary", f"{len(rest)} more"), table(header, rest))] if rest else []
    return [table(header, rows[:SHOWN]), *more]


def section(title: str, lead: object, *content: object, name: str) -> Html:
    return tag("section", tag("h2", title), tag("p", lead, class_="lead"), *content, id=name)


def figure(title: object, drawing: Html, note: object = "") -> Html:
    caption = tag("figcaption", title, tag("span", note, class_="note") if note else Html())
    return tag("figure", caption, drawing)
