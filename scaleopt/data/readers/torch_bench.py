"""all_reduce_bench.py of torch.distributed: every rank prints the duration of every trial.

    7:
     duration: 0.7093 sec
     algo throughput: 90229254099.1920 bps, 90.2293 Gbps
     busbw: 84.5899  Gbps

The lines of the ranks come in each other's way, so a duration is taken with the throughput that
fits it: throughput = 2 × 8 × size / duration in bits, and busbw = throughput × (N − 1)/N. The size
stands above as `data size: 4.0 GB`, 10⁹ B a GB.

Source: all_reduce_bench.py, as printed in logs of the BigScience workshop.
"""

import re

from scaleopt.data.readers.lines import Line
from scaleopt.data.readers.printed import MB, SECONDS, Printed, overlap, printed
from scaleopt.data.readers.record import Block, Log, Row, Timing
from scaleopt.units import GB, kB

_SIZE = re.compile(r"\s*\d*\s*data size:\s*([\d.]+)\s*([KMG])B")
_DURATION = re.compile(r"\s*(?:\d+:)?\s*duration:\s*(\d+\.\d{4})\s*(\w+)\s*$")
_THROUGHPUT = re.compile(r"\s*algo throughput:\s*(\S+) bps,\s*(\S+) Gbps\s*$")
_BUS = re.compile(r"\s*busbw:\s*(\S+)\s+Gbps\s*$")
_RANKS = re.compile(r"\bnranks (\d{1,9})\b")
_WAITING = 4096


class Reader:
    """Reads one log."""

    name = "torch all_reduce_bench"
    marks = ("data size:", "algo throughput:")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.size: float | None = None
        self.told: float | None = None
        """What a rank said of the size since the last result."""
        self.block = Block({}, op="all_reduce")
        self.durations: list[tuple[Line, Printed]] = []
        self.throughputs: list[Printed] = []
        self.agreeing = self.disagreeing = 0
        log.blocks.append(self.block)

    @staticmethod
    def starts(text: str) -> bool:
        """Whether a line can only be of this format."""
        return bool(_SIZE.match(text) or _THROUGHPUT.match(text))

    def read(self, line: Line) -> None:
        """Take one line."""
        text = line.text
        if size := _SIZE.match(text):
            self._sized(line, printed(size[1]), {"K": kB, "M": MB, "G": GB}[size[2]])
        elif ranks := _RANKS.search(text):
            self.log.launched = self.log.launched or int(ranks[1])
        elif duration := _DURATION.match(text):
            seconds = printed(duration[1])
            if seconds is None or seconds.value <= 0 or duration[2] not in SECONDS:
                self.log.skip(line, "a duration that is not a number of seconds")
            else:
                self.durations.append((line, seconds.times(SECONDS[duration[2]])))
                if len(self.durations) > _WAITING:
                    self.log.skip(self.durations.pop(0)[0], "a duration without its throughput")
        elif throughput := _THROUGHPUT.match(text):
            self._throughput(line, printed(throughput[1]), printed(throughput[2]))
        elif bus := _BUS.match(text):
            self._bus(line, printed(bus[1]))
        elif any(word in text for word in ("duration", "throughput", "busbw", "bps")):
            self.log.skip(line, "a line of a result that is damaged")

    def finish(self) -> None:
        """What is left over at the end."""
        for line, _ in self.durations:
            self.log.skip(line, "a duration without a throughput that agrees with it")
        if self.disagreeing > self.agreeing:
            self.log.launched = None  # the number of ranks is not the one that ran

    def _sized(self, line: Line, number: Printed | None, unit: float) -> None:
        """The size of what follows, which every rank says."""
        if number is None:
            self.log.skip(line, "a data size that is no number")
            return
        size = number.value * unit
        if self.told not in (None, size):
            self.log.skip(line, "a data size that another rank does not say")
            self.size = None
        else:
            self.size = self.told = size

    def _throughput(self, line: Line, bits: Printed | None, giga: Printed | None) -> None:
        if bits is None or giga is None or not overlap(giga.times(GB), bits.low, bits.high):
            self.log.skip(line, "the two throughputs do not agree")
            return
        self.told = None
        if self.size is None:
            self.log.skip(line, "a throughput without a data size above it")
            return
        for place, (at, seconds) in enumerate(self.durations):
            if overlap(
                bits, 16 * self.size / seconds.high, 16 * self.size / max(seconds.low, 1e-12)
            ):
                del self.durations[place]
                self.throughputs.append(bits)
                del self.throughputs[:-_WAITING]
                self.block.rows.append(Row(at, self.size, (Timing("trial of a rank", seconds),)))
                return
        self.log.skip(line, "a throughput that no duration agrees with")

    def _bus(self, line: Line, busbw: Printed | None) -> None:
        ranks = self.log.launched
        if busbw is None:
            self.log.skip(line, "a bandwidth that is not a number")
        elif ranks and not any(
            overlap(busbw.times(GB), bits.low * (1 - 1 / ranks), bits.high * (1 - 1 / ranks))
            for bits in self.throughputs
        ):
            self.disagreeing += 1
            self.log.skip(line, "a bus bandwidth that no throughput agrees with")
        else:
            self.agreeing += 1
