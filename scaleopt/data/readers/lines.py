"""A log as clean lines: decoded, without colours, rank tags and time stamps, in bounded memory."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LONGEST = 4096
"""Letters of a line that are read; the rest of a longer one is passed over."""
_BLOCK = 2**18
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07?")
_TAG = re.compile(
    r"\[\d+,\d+\](?:<std(?:out|err|diag)>)?: ?"  # Open MPI --tag-output
    r"|\[[\w.-]+:\d+:\d+\]<?(?:stdout|stderr)?>?: ?"
    r"|\[?(?:rank|proc|worker|node)[ _-]?\d+\]?: ?"
    r"|\[\d{1,6}\](?::| (?=[\s#\d])) ?"  # Intel MPI -l writes [0], others [0]:
    r"|\d{1,6}: (?=[\s#\d])"  # srun --label
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[-+]\d\d:?\d\d)?\]? ?"
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]? ?"
    # a pod's name or a host's
    r"|(?:[\w.-]*worker[\w.-]*|[a-z][\w.-]*\d[\w.-]*): (?=[\s#\d]|Size \(|----)"
    r"|> ",
    re.IGNORECASE,
)
_UNTAGGED = frozenset(" \t#")
"""First letters of lines of tables, which are looked at no further."""


class Line(NamedTuple):
    """A line of the log: its number from 1, and its text without what others wrote before it."""

    number: int
    text: str


def lines(path: Path) -> Iterator[Line]:
    """Every line, one at a time."""
    for number, block in blocks(path):
        yield from map(Line._make, enumerate(map(clean, block), number))


def records(path: Path, delimiter: str | None = None) -> Iterator[tuple[Line, list[str]]]:
    """The cells of every line of a CSV that is not blank, each line as it stands.

    Args:
        path: of the file.
        delimiter: between cells; else what there is most of in the first line with cells.
    """
    for number, block in blocks(path):
        for place, text in enumerate(block, number):
            text = text.lstrip("\ufeff").rstrip("\r\n\0").replace("\r", " ")
            if not text.strip() or (delimiter is None and text.startswith("#") and "," not in text):
                continue
            delimiter = delimiter or max(",;\t|", key=text.count)
            yield Line(place, text), _cells(text, delimiter)


def _cells(text: str, delimiter: str) -> list[str]:
    """The cells of a line; none of one that no CSV has, as with a quotation that does not end."""
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines as they stand, some at a time, with the number of the first."""
    with path.open("rb") as file:
        encoding = _encoding(file.read(4096))
    number, rest = 1, ""
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        while block := file.read(_BLOCK):
            *whole, rest = (rest + block).split("\n")
            rest = rest[:_BLOCK]
            if whole:
                yield number, whole
            number += len(whole)
    if rest:
        yield number, [rest]


def clean(text: str) -> str:
    r"""A line without colours, line end, rank tags and time stamps.

    >>> clean("[1,0]<stdout>:\x1b[32m   8   2  float\x1b[0m\r\n")
    '   8   2  float'
    >>> clean("2024-05-01T10:11:12.123456Z # Rank 0")
    '# Rank 0'
    """
    text = text[:LONGEST].rstrip("\r\n\0")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if text[:1] in _UNTAGGED:
        return text
    text = text.lstrip("\ufeff")
    for _ in range(4):  # tags stand before tags, as a pod's time stamp before a rank
        tag = _TAG.match(text)
        if tag is None:
            return text
        text = text[tag.end() :]
    return text


def _encoding(start: bytes) -> str:
    """By the mark at the beginning, else by where the zero bytes of plain letters stand."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if len(start) > 3 and start[1::2].count(0) > len(start) // 3:
        return "utf-16-le"
    if len(start) > 3 and start[::2].count(0) > len(start) // 3:
        return "utf-16-be"
    return "utf-8-sig" if start.startswith(b"\xef\xbb\xbf") else "utf-8"
