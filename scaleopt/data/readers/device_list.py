"""The list of devices above a table of nccl-tests: a line a rank, with its host and device.

Lists are shortened by those who post them, and damaged; so what they say is held against itself:
N is taken from a whole list alone, the number of hosts from one that has as many ranks on each.
"""

import re
from collections import defaultdict

_DEVICE = re.compile(
    r"#?\s*Rank\s+(\d{1,9})\s.*?(?:\bon\s+(\S+)\s+)?\bdevice\s+(\d+)\s+\[[\w:.]*\]\s*(.*)"
)


class DeviceList:
    """The ranks of one run."""

    def __init__(self) -> None:
        self.kind = ""
        self.damaged = False
        """Whether a line of it could not be read."""
        self._places: dict[int, tuple[str, str]] = {}

    def add(self, text: str) -> bool:
        """Take a line, if it is one of the list."""
        match = _DEVICE.match(text)
        if match is None:
            return False
        self._places[int(match[1])] = match[2] or "", match[3]
        self.kind = re.sub(r"\s*\(node \d+\)$", "", match[4].strip()) or self.kind
        return True

    @property
    def least(self) -> int:
        """The least N that the ranks in the list leave; 0 where there is no list."""
        return max(self._places, default=-1) + 1

    @property
    def devices(self) -> int | None:
        """N, where every rank is in the list."""
        whole = self._places and len(self._places) == self.least and not self.damaged
        return self.least if whole else None

    @property
    def nodes(self) -> int | None:
        """The hosts: of a whole list, where all have the same devices; else as its ranks tell."""
        held: dict[str, dict[int, str]] = defaultdict(dict)
        for rank, (host, device) in self._places.items():
            held[host][rank] = device
        if not held or "" in held:
            return None
        if self.devices is not None:
            alike = {tuple(sorted(ranks.values())) for ranks in held.values()}
            return len(held) if len(alike) == 1 else None
        firsts = {ranks[min(ranks)] for ranks in held.values()}
        in_rows = len(firsts) == 1 and _in_rows([set(ranks) for ranks in held.values()])
        return len(held) if in_rows else None


def _in_rows(hosts: list[set[int]]) -> bool:
    """Whether the ranks of a shortened list begin a host every so many, and none is elsewhere."""
    hosts = sorted(hosts, key=min)
    each = min(hosts[1]) if len(hosts) > 1 else 0
    return each > 0 and all(
        min(ranks) == place * each and max(ranks) < (place + 1) * each
        for place, ranks in enumerate(hosts)
    )
