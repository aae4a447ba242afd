"""The constants of the cost model, as data with their provenance, and what each is multiplied by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

COSTS_FILE = Path(__file__).with_name("costs.json")


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes. The first seven are fitted to measured runs on one GPU, the rest are data-sheet figures."""

    seconds_per_step: float
    """Launching a step's kernels."""
    seconds_per_fact: float
    """Shuffling and numbering one fact."""
    seconds_per_gathered_byte: float
    """Reading a fact's three rows and adding to their gradients, through the cache."""
    seconds_per_moved_byte: float
    """Reading and writing weights and AdaGrad's sums of a step's distinct rows, in the device's memory."""
    copies_of_state: float
    """How many times the engine holds the tables."""
    bytes_per_fact: float
    """Facts and their order, which stay on the device."""
    bytes_per_planned_fact: float
    """The plan of the steps ahead, for at most `planned_facts` at once."""
    planned_facts: int
    device_bytes: float
    link_bytes_per_second: float
    """Between devices of one machine, in one direction."""
    network_bytes_per_second: float
    """Between machines, for each device, in one direction."""
    devices_per_machine: int
    seconds_per_collective: float
    """What an exchange between devices takes however little is sent."""


def cost_terms(
    *, batch: Any, widths: tuple[Any, Any], moved_bytes: Any, state_bytes: Any, facts: Any, planned_facts: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the constants are multiplied by, under their names: for the seconds per step, for the peak bytes.

    `widths` are those of entity and relation rows, `moved_bytes` is per step. Numbers, or arrays with one per run.
    """
    seconds = {
        "seconds_per_step": 1.0,
        "seconds_per_fact": batch,
        "seconds_per_gathered_byte": 4 * batch * (2 * widths[0] + widths[1]),
        "seconds_per_moved_byte": moved_bytes,
    }
    planned = np.minimum(facts, planned_facts)
    return seconds, {"copies_of_state": state_bytes, "bytes_per_fact": facts, "bytes_per_planned_fact": planned}


@cache
def stored() -> dict[str, Any]:
    """Return what the file holds: `costs`, `provenance`, `graphs` and `published`."""
    found: dict[str, Any] = json.loads(COSTS_FILE.read_text("utf-8"))
    return found


def stored_costs() -> Costs:
    """Return the constants of the package."""
    return Costs(**stored()["costs"])
