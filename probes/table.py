"""The table that measuring processes fill, by the words of the first of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scaleopt.data.join import differences
from scaleopt.data.measurements import MeasurementError, MeasurementWriter, taken
from scaleopt.data.reading import read_measurements

Progress = Callable[[float, str], None]
"""Told the share that is done and what is being done."""


class Table:
    """A table that is made when the first process says where it is, or that is gone on with.

    Args:
        path: the file.
        progress: told what is going on.
        resume: whether it is the file of an interrupted run.

    Raises:
        FileExistsError: the file is there, and is not to be gone on with.
        FileNotFoundError: there is none to go on with.
        MeasurementError: what is to be gone on with is no table.
    """

    def __init__(
        self, path: Path, progress: Progress | None = None, *, resume: bool = False
    ) -> None:
        if path.exists() and not resume:
            raise FileExistsError(taken(path))
        if resume and not path.exists():
            raise FileNotFoundError(f"{path}: there is no table to go on with; leave --resume out")
        self.path, self.context = path, dict[str, Any]()
        self.progress = progress or (lambda done, what: None)
        self.left_out: list[str] = []
        """What was not measured, each with its reason."""
        self._writer: MeasurementWriter | None = None
        self._before = read_measurements(path) if resume else None
        self.runs = self._next_round = 0
        """How many runs it holds already, an interrupted one among them."""
        if self._before is not None:
            ends = self._before.table[["run", "round"]].fillna(0).max().astype(int) + 1
            self.runs, self._next_round = map(int, ends)
        self._run = self._first_round = self._part = 0
        self._parts = 1

    @property
    def rows(self) -> int | None:
        """How many were added; None while there is no table to add to."""
        return None if self._writer is None else self._writer.rows

    @property
    def side(self) -> int | None:
        """Of the largest matrices in it, which a further run measures as well."""
        known = self.context if self._before is None else self._before.context
        return known.get("matrix_side")

    def begin(self, run: int, part: int, parts: int) -> None:
        """From here on rows are of this run, and their rounds follow those before.

        Args:
            run: its number among those to come, from 0.
            part: how many parts of the work are done.
            parts: of so many.
        """
        self._run, self._first_round = self.runs + run, self._next_round
        self._part, self._parts = part, parts

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take what the first process says.

        Raises:
            MeasurementError: it measures otherwise than the rows that are there were measured.
        """
        if "context" in message and self._writer is None:
            self._open(message["context"])
        if "row" in message and self._writer is not None:
            number = message["row"]["round"] + self._first_round
            self._next_round = number + 1
            self._writer.append(message["row"] | {"run": self._run, "round": number})
        if "doing" in message:
            self.progress((self._part + message["done"]) / self._parts, message["doing"])
        self.left_out += [said for said in message.get("left_out", []) if said not in self.left_out]

    def close(self) -> None:
        """No more rows come."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, context: dict[str, Any]) -> None:
        if self._before is not None and (other := differences(self._before.context, context)):
            raise MeasurementError(
                f"{self.path} was not measured like this ({'; '.join(other)}); choose a new --out"
            )
        self.context = context
        self._writer = MeasurementWriter(self.path, context, resume=self._before is not None)
