"""Where the cells of a printed table end: benchmarks pad them to columns, which damage shifts."""

import re
from collections import Counter
from collections.abc import Sequence

_CELL = re.compile(r"\S+")
_GAP = re.compile(r"\S\s\s+\S")


def ends(text: str, cell: "re.Pattern[str]" = _CELL) -> tuple[int, ...]:
    """Where the cells of a line end; the first of a line that begins with it has no place to keep.

    >>> ends("  8  16"), ends("8    16")
    ((3, 7), (0, 7))
    """
    found = [match.end() for match in cell.finditer(text)]
    return tuple(found if text[:1].isspace() else (0, *found[1:]))


def shortened(texts: Sequence[str]) -> list[bool]:
    """Which lines of a padded table lack a letter: a cell stands to the left of its place in most.

    A cell that is too long for its column pushes the others to the right, and nothing pulls them to
    the left. Only lines with several spaces between cells are padded, and what stands at the margin
    may differ.

    >>> rows = [" 8  2  x  10  1", " 9  2  x  10  1", " 9  2  x  20  1"]
    >>> shortened([*rows, " 9  2  x 10  1", " 9  2  x  1000  1"])
    [False, False, False, True, False]
    """
    places = [[match.span() for match in _CELL.finditer(text)] for text in texts]
    if not places:
        return []
    most, times = Counter(tuple(end for _, end in own) for own in places).most_common(1)[0]
    if 2 * times <= len(places):
        return [False] * len(places)
    usual = next(own for own in places if tuple(end for _, end in own) == most)
    return [
        bool(_GAP.search(text)) and own[0][1] == usual[0][1] and _left_of(own, usual)
        for text, own in zip(texts, places, strict=True)
    ]


def _left_of(cells: list[tuple[int, int]], usual: list[tuple[int, int]]) -> bool:
    """Whether the first cell that is out of its place, or one after it, is to the left of it."""
    pairs = zip(cells, usual, strict=False)
    apart = [(start - its_start, end - its_end) for (start, end), (its_start, its_end) in pairs]
    first = next((place for place, (_, end) in enumerate(apart) if end), len(apart))
    return any(start < 0 and end < 0 for start, end in apart[first:][:2])
