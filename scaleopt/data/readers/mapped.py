"""Any CSV, JSON or Parquet as our table, by a mapping of columns and units.

`devices=num_gpus` takes a column as it is, `time_s=time_us:us` one in another unit. `devices=8` or
`op=all_reduce` gives every row one value.
"""

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleopt.data.measurements import MeasurementError
from scaleopt.data.readers import lines
from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import printed
from scaleopt.data.readers.record import OPS, Log
from scaleopt.data.schema import NAMED, complaint
from scaleopt.data.schema import OPS as KINDS
from scaleopt.units import KiB, parse

_UNIT = re.compile(r"[_ (\[](ns|us|ms|[kMGT]i?B|[kmgt]b)\)?\]?$", re.IGNORECASE)
"""A unit that is not SI's own, at the end of a column's name."""
LARGEST = 2**16 * KiB
"""Bytes of a JSON document that is read whole."""


class Column:
    """Where a column of ours comes from, and by how much it is to be multiplied."""

    def __init__(self, name: str, source: str) -> None:
        if name not in NAMED:
            raise MeasurementError(f"--map {name}={source}: the columns are {', '.join(NAMED)}")
        self.name, self.source, self.factor, self.unit = name, source, 1.0, ""
        column, colon, unit = source.rpartition(":")
        if colon and NAMED[name].kind in ("number", "whole"):
            self.source, self.unit = column, unit
            si = {"time_s": "s", "injected_s": "s", "flops": "FLOP"}.get(name, "B")
            try:
                self.factor = parse(f"1 {unit}", si)
            except ValueError as error:
                raise MeasurementError(f"--map {name}={source}: {error}") from None

    def check(self, path: Path, names: Sequence[str]) -> None:
        """Refuse a source that is neither a column nor a value, or whose unit is not said."""
        if self.source in names:
            told = _UNIT.search(self.source)
            if told and not self.unit and NAMED[self.name].kind == "number":
                raise MeasurementError(
                    f"{path}: column {self.source!r} seems to be in {told[1]}, and our {self.name} "
                    f"is in SI: write {self.name}={self.source}:{told[1]}, or its own unit"
                )
        elif not self._is_value():
            raise MeasurementError(
                f"{path}: no column {self.source!r} (--map {self.name}={self.source}); it has "
                f"{', '.join(map(str, names))[:400]}"
            )

    def _is_value(self) -> bool:
        """Whether the source can stand for every row."""
        if self.name == "op":
            return _op(self.source) is not None
        numeric = NAMED[self.name].kind in ("number", "whole")
        return not numeric or printed(self.source.strip()) is not None

    def value(self, record: Mapping[str, Any]) -> Any:
        """The cell of a record, in SI; a source that is no column is a value for every row."""
        cell = record.get(self.source, self.source)
        if self.name == "op":
            return _op(str(cell)) or cell
        if NAMED[self.name].kind not in ("number", "whole"):
            return str(cell).strip()
        number = cell if isinstance(cell, int | float) and not isinstance(cell, bool) else None
        if number is None:
            shown = printed(str(cell).strip())
            number = None if shown is None else shown.value
        return None if number is None else number * self.factor


def _op(text: str) -> str | None:
    """An operation of ours by its own name or another's."""
    key = text.strip().lower().replace("-", "_")
    return key if key in KINDS else OPS.get(key)


def read_mapped(log: Log, path: Path, mapping: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rows of a file by a mapping; records that lack what is needed are skipped."""
    columns = [Column(name, source) for name, source in mapping.items()]
    checked = False
    for line, record in records(path, [column.source for column in columns]):
        log.lines = line.number
        if not checked:
            for column in columns:
                column.check(path, [str(name) for name in record if name is not None])
        checked = True
        row = {column.name: column.value(record) for column in columns}
        missing = [name for name in ("op", "devices", "time_s") if name not in row]
        if missing:
            raise MeasurementError(
                f"{path}: {', '.join(missing)} is not said; add for example "
                f"--map {missing[0]}=COLUMN, or a value for every row"
            )
        faults = [
            complaint(NAMED[name], "" if value is None else _text(value))
            or (f"{name} is not a number" if value is None else None)
            for name, value in row.items()
        ]
        fault = next((fault for fault in faults if fault), None)
        if fault or (None in record.values() and None in record):
            log.skip(line, fault or "more cells than columns")
        else:
            yield row


def records(path: Path, wanted: Collection[str] = ()) -> Iterator[tuple[Line, dict[str, Any]]]:
    """Every record of a CSV, JSON, JSON lines or Parquet file, with its line or number."""
    with path.open("rb") as file:
        start = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"PAR1"):
        yield from _parquet(path)
    elif start.startswith((b"{", b"[")):
        yield from _json(path)
    else:
        yield from _csv(path, wanted)


def _csv(path: Path, wanted: Collection[str]) -> Iterator[tuple[Line, dict[str, Any]]]:
    names: list[str] = []
    for line, cells in lines.records(path):
        if not names:
            found = [name.strip() for name in cells]
            if line.text.startswith("#"):  # a comment, or a header behind its mark
                found[0] = found[0].lstrip("# ")
                if not {*found} & {*wanted}:
                    continue
            names = found
            continue
        record: dict[Any, Any] = dict(zip(names, cells, strict=False))
        if len(cells) != len(names):
            record[None] = None
        yield line, record


def _json(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    for number, record in enumerate(_flat_records(document(path)), 1):
        yield Line(number, json.dumps(record)[:200]), record


def document(path: Path) -> Any:
    """A whole JSON document, or the list of the lines of one in JSON lines."""
    if path.stat().st_size > LARGEST:
        raise MeasurementError(
            f"{path}: JSON above {LARGEST / KiB / KiB:g} MiB; split it, or use CSV"
        )
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        found = []
        for part in text.splitlines():
            try:
                found += [json.loads(part)] if part.strip() else []
            except (json.JSONDecodeError, RecursionError):
                found.append({})
        if not any(found):
            raise MeasurementError(f"{path}: not JSON ({error})") from None
        return found


def _flat_records(whole: Any) -> Iterator[dict[str, Any]]:
    """The objects of a list, those inside them flattened to dotted names."""
    if isinstance(whole, dict):
        lists = [value for value in whole.values() if isinstance(value, list)]
        whole = lists[0] if len(lists) == 1 else [whole]
    for item in whole if isinstance(whole, list) else []:
        if isinstance(item, dict):
            flat: dict[str, Any] = {}
            _flatten(item, "", flat)
            yield flat


def _flatten(item: dict[str, Any], front: str, into: dict[str, Any]) -> None:
    for key, value in item.items():
        if isinstance(value, dict) and front.count(".") < 8:
            _flatten(value, f"{front}{key}.", into)
        else:
            into[f"{front}{key}"] = value


def _parquet(path: Path) -> Iterator[tuple[Line, dict[str, Any]]]:
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ImportError:
        raise MeasurementError(
            f"{path}: Parquet needs pyarrow; pip install 'scaleopt[parquet]'"
        ) from None
    except Exception as error:  # whatever the engine raises of a damaged file
        raise MeasurementError(f"{path}: not a Parquet file that can be read ({error})") from None
    for number, record in enumerate(table.to_dict("records"), 1):
        yield Line(number, str(record)[:200]), {str(key): value for key, value in record.items()}


def _text(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return repr(float(value)) if isinstance(value, int | float) else str(value)
