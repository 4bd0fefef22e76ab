"""Plain JSON, by the schema in constants.schema.json: everything, in SI."""

import json
from dataclasses import asdict

from scaleopt.show.export.constants import Constants, Export


def plain(found: Constants) -> Export:
    """Every constant with value, interval, unit and provenance, and what they were fitted to."""
    whole = {
        "version": 2,
        "origin": list(found.origin),
        "level": found.level,
        "devices": found.devices,
        "nodes": found.nodes,
        "devices_per_node": found.per_node,
        "dtype": found.dtype,
        "constants": {name: asdict(it) for name, it in found.named.items()},
    }
    return Export(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", ())
