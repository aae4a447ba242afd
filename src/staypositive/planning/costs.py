"""The constants of the cost model, as data with their provenance; `python -m experiments fit-costs` fits them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes. The first seven are fitted to measured runs on one GPU, the rest are data-sheet figures."""

    seconds_a_step: float
    """Launching a step's kernels."""
    seconds_a_fact: float
    """Shuffling and numbering one fact."""
    seconds_a_gathered_byte: float
    """Reading a fact's three rows and adding to their gradients, through the cache."""
    seconds_a_moved_byte: float
    """Reading and writing weights and AdaGrad's sums of the distinct rows of a step, in the device's memory."""
    copies_of_state: float
    """How often the engine holds the tables."""
    bytes_a_fact: float
    """Facts and their order, which stay on the device."""
    bytes_a_planned_fact: float
    """The plan of the steps ahead, for at most `planned_facts` at once."""
    planned_facts: int
    device_bytes: float
    link_bytes_per_second: float
    """Between devices of one machine, in one direction."""
    network_bytes_per_second: float
    """Between machines, for each device, in one direction."""
    devices_a_machine: int
    seconds_a_collective: float
    """What an exchange between devices takes however little is sent."""


@cache
def stored() -> dict[str, Any]:
    """Return what the file holds: `costs`, `provenance`, `graphs` and `published`."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


def stored_costs() -> Costs:
    """Return the constants of the package."""
    return Costs(**stored()["costs"])
