"""What a benchmark can have printed: the judge of a reader that was given a damaged log.

A digit of a time that nothing else on the page repeats can become another digit without a trace:
the file is then one that the benchmark could have printed, and no reader can tell. Which files they
are is decided here, not by the reader, by holding a text against the sample it was made from:

- line by line, or where all is one line value by value, it is the sample, numbers aside; only its
  end may be missing;
- every number is printed as the benchmark prints it: with as many decimals, without a leading zero,
  and in tables of fixed width ending in the same column;
- sizes and counts are those that were asked for;
- the format's own laws hold: bandwidths are size over time to their printed digits, an average lies
  between the least and the most, a total agrees with its parts.

A row that is not the sample's is excused only where some of the damaged lines, the others mended,
make such a file with that very row in it; a row that is lost without a word, only where they make
such a file without it.
"""

import itertools
import json
import re
from difflib import SequenceMatcher

from readers_samples import SAMPLES

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_FIELD = re.compile(r" *(\d+)(?:\.(\d+))?")
_PADDED = re.compile(r"(?<![\w.+-])0\d+")
_DATA = re.compile(r"\s*\d[\s\d]{5}")
FREE = ("oneCCL, CSV",)
"""Formats that print as many digits as a number needs."""
_FIELDS = ("op", "devices", "nodes", "size", "time", "dtype")
US = 1e-6


def key(row):
    """All that a row says, but for its label; the time to what two ways of reckoning agree in."""
    size = row.get("size_bytes")
    return (
        row["op"], row["devices"], row.get("nodes"), size, f"{row['time_s']:.9g}",
        row.get("dtype", ""),
    )  # fmt: skip


def excused(name, damaged, originals, wrong, count, said):
    """Whether a benchmark can have printed the wrong rows, or no more rows than `count`.

    Args:
        name: of the sample.
        damaged: the text.
        originals: keys of the sample's rows, in order.
        wrong: keys that are not the sample's; where there are none, rows are missing.
        count: of rows that were read.
        said: whether damage was reported; then a row need not say what its sample's said.
    """
    sample, marks = SAMPLES[name][0], "," if name in ONE_LINE else "\n"
    marks += "(" * (name == "Extra-P")  # between points, which stand in one line
    mended = (
        _partly_mended(sample, damaged, mark, from_end)
        for mark in marks
        for from_end in (False, True)
    )
    texts = {*itertools.chain.from_iterable(mended)}
    files = [printed_rows(name, text, originals) for text in texts]
    files = [rows for rows in files if rows is not None]
    if wrong:
        held = {row for rows in files for row in rows}
        return all(any(agree(row, other, said) for other in held) for row in wrong)
    return any(len(rows) <= count for rows in files)


def agree(row, other, said):
    """Whether two rows say the same; where damage was said, the first need not say all."""
    return all(a == b or (said and a in (None, "")) for a, b in zip(row, other, strict=True))


def _partly_mended(original, damaged, parted, from_end):
    """The texts that some of the damage makes, line by line, or between what else parts them."""
    ours, theirs = (text.rstrip("\n").split(parted) for text in (original, damaged))
    pieces = []
    for tag, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        pairs = min(b - a, d - c) * (tag == "replace")
        lead = (b - a, d - c) if from_end else (0, 0)  # where the surplus stands
        front, back = max(lead[0] - pairs, 0), max(lead[1] - pairs, 0)
        pieces.append((ours[a : a + front], theirs[c : c + back]))
        a, c = a + front, c + back
        pieces += [([ours[a + n]], [theirs[c + n]]) for n in range(pairs)]
        pieces.append((ours[a + pairs : b], theirs[c + pairs : d]))
    damages = [n for n, (one, other) in enumerate(pieces) if one != other]
    for kept in itertools.product((False, True), repeat=len(damages)):
        left = dict(zip(damages, kept, strict=True))
        lines = [pair[left.get(number, True)] for number, pair in enumerate(pieces)]
        yield parted.join(itertools.chain.from_iterable(lines))


def printed_rows(name, text, originals):
    """The keys of the rows of a text that the benchmark can have printed; None of any other."""
    ours, theirs = (whole.rstrip("\n").split("\n") for whole in (SAMPLES[name][0], text))
    if name not in FREE_FORM and not _like(name, ours, theirs):
        return None
    if set(_PADDED.findall(text)) - set(_PADDED.findall(SAMPLES[name][0])):
        return None
    try:
        found = LAWS[name](theirs if name not in ONE_LINE else text)
    except (ValueError, KeyError, IndexError, ZeroDivisionError, TypeError):
        return None
    if found is None:
        return None
    held = [
        dict(zip(_FIELDS, was, strict=True)) | row
        for was, row in zip(originals, found, strict=False)
    ]
    return [(*row.values(),) for row in held]


def _like(name, ours, theirs):
    """Whether lines are the sample's, numbers aside; only its end may be missing."""
    if len(theirs) > len(ours) or (len(theirs) < len(ours) and name in ONE_LINE):
        return False
    shape = _free if name in FREE else _printed
    pairs = zip(ours, theirs, strict=False)
    return all(shape(one.rstrip()) == shape(other.rstrip()) for one, other in pairs)


def _row(time, size, **told):
    """What a law says of a row: its time [s], its size [B], and what else is not the sample's."""
    return {"time": f"{time:.9g}", "size": size, **told}


def _run(devices):
    """The devices of a row; one alone is on one host."""
    return {"devices": devices, "nodes": 1 if devices == 1 else None}


def _free(line):
    """A line with nothing in place of its numbers."""
    return _NUMBER.sub("0", line)


def _printed(line):
    """A line with only the shape of its numbers left; a table's with their places as well."""
    line = re.sub(r"(?<=# Benchmarking: reduce)_scatter$", "", line)
    line = re.sub(r" u(?=int8 )|  (?=int8 )", "  ", line)  # of one size
    if _DATA.match(line):
        return _FIELD.sub(lambda m: f"<{len(m[0])}.{len(m[2] or '')}>", line)
    return re.sub(r"\d+(?:\.(\d+))?", lambda m: "0." + "0" * len(m[1] or ""), line)


def _cells(lines):
    """The cells of the lines of tables."""
    return [line.split() for line in lines if _DATA.match(line)]


def _range(text):
    """A printed number's least and most."""
    half = 0.5 * 10.0 ** -len(text.partition(".")[2])
    return float(text) - half, float(text) + half


def _agrees(text, factor, time):
    """Whether a printed rate can be a factor over a printed time."""
    (low, high), (least, most) = _range(text), _range(time)
    return low <= factor / max(least, 1e-9) * (1 + 1e-9) and factor / most <= high * (1 + 1e-9)


def _nccl(lines):
    found, buses = [], []
    sizes = (1024, 32768, 1048576)
    for size, (shown, count, _, _, _, *rest) in zip(sizes, _cells(lines), strict=False):
        if int(shown) != size or int(count) != size // 4:
            return None
        for time, algbw, busbw, _ in (rest[:4], rest[4:]):
            if not _agrees(algbw, size / 1e3, time) or not _agrees(busbw, 1.5 * size / 1e3, time):
                return None
            found.append(_row(float(time) * US, size))
            buses.append(float(busbw))
    if average := re.findall(r"Avg bus bandwidth    : (\S+)", "\n".join(lines)):
        slack = 0.005 + 5e-6 * float(average[0])
        if len(found) != 6 or abs(sum(buses) / 6 - float(average[0])) > slack:
            return None
    return found


def _old(lines):
    rows = [line.split(":", 1)[1].split() for line in lines if "float" in line]
    found = []
    for power, (shown, count, _, *rest) in enumerate(rows):
        size = 1048576 << power
        if (int(shown), int(count)) != (size, size // 16):
            return None
        for time, algbw, busbw, _ in (rest[:4], rest[4:]):
            if not _agrees(algbw, size / 1e3, time) or not _agrees(busbw, 0.75 * size / 1e3, time):
                return None
            found.append(_row(float(time) * US, 4 * size))
    return found


def _nccl_json(text):
    run = json.loads(text)
    result = run["results"][0]
    if (result["size"], result["count"]) != (1048576, 262144):
        return None
    if [device["rank"] for device in run["config"]["devices"]] != [0, 1]:
        return None
    if (run["config"]["nthreads"], run["config"]["ngpus"]) != (1, 1):
        return None
    found = []
    for place in ("out_of_place", "in_place"):
        time, *rates = (f"{result[place][name]:.6f}" for name in ("time", "alg_bw", "bus_bw"))
        if not all(_agrees(rate, 1048576 / 1e3, time) for rate in rates):
            return None
        found.append(_row(float(time) * US, 1048576))
    return found


def _osu(lines):
    found = []
    for power, (size, average, least, most, _) in enumerate(_cells(lines)):
        begins = (power, size) == (0, "0")  # as it can
        if not (begins or int(size) == 2**power):
            return None
        if not float(least) <= float(average) <= float(most):
            return None
        found.append(_row(float(average) * US, 8 * int(size)))
    return found


def _imb(lines):
    found, sizes = [], (0, 1, 2, 4, 8, 1, 2, 4, 8, 16)
    processes = [int(line.split()[-1]) for line in lines if "#processes" in line]
    for place, (size, (shown, _, *times)) in enumerate(zip(sizes, _cells(lines), strict=False)):
        if int(shown) != size and (place, int(shown)) != (5, 0):  # it can begin with 0
            return None
        size = int(shown)
        if place < 5:
            if not _agrees(times[1], size, times[0]):
                return None
            found.append(_row(float(times[0]) * US, size))
        elif float(times[0]) <= float(times[2]) <= float(times[1]):
            n = processes[1]
            found.append(_row(float(times[2]) * US, n * n * size, **_run(n)))
        else:
            return None
    return found


def _oneccl(lines):
    """The name of one operation is a part of another's, and their tables look the same."""
    op = next(line.split()[-1] for line in lines if "Benchmarking" in line)
    processes = next(int(line.split()[-1]) for line in lines if "#processes" in line)
    found = []
    for power, (size, count, _, least, most, average, _) in enumerate(_cells(lines)):
        bounds = float(least) <= float(average) <= float(most)
        if int(size) != 4096 << power or int(count) != 1024 << power or not bounds:
            return None
        full = {"reduce_scatter": processes, "reduce": 1}[op] * int(size)
        found.append(_row(float(average) * US, full, op=op, **_run(processes)))
    return found


def _oneccl_csv(lines):
    found = []
    for power, line in enumerate(filter(None, lines[1:])):
        cells = line.split(",")
        ranks, item, count, size, buffers = (int(cells[at]) for at in (0, 4, 5, 6, 7))
        least, most, average = map(float, cells[9:12])
        if (item, count, size, buffers) != (4, 1024 << power, 4096 << power, 1):
            return None
        if not least <= average <= most:
            return None
        found.append(_row(average * US, ranks * size, **_run(ranks)))
    return found if len({row["devices"] for row in found}) < 2 else None


def _deepspeed(lines):
    devices = int(re.findall(r"(\d+) devices", lines[0])[0])
    shown, _, description, time, _, rate, bus = lines[3].split()
    count, item = map(int, description.split("x"))
    size = count * item
    total = 8e-3 * devices * size
    if f"{size / 2**20:.2f}" != f"{float(shown):.2f}" or not _agrees(rate, total, time):
        return None
    if not _agrees(bus, total * (devices - 1) / devices, time):
        return None
    return [_row(float(time) * US, devices * size, **_run(devices))]


def _nccom(lines):
    ranks = int(lines[0].split()[2])
    found = []
    for power, line in enumerate(lines[2:5]):
        shown, count, dtype, time, algbw, busbw = line.split()
        size = 33554432 << power
        if (int(shown), int(count)) != (size, size) or not _agrees(algbw, size / 1073.741824, time):
            return None
        if not _agrees(busbw, 2 * (ranks - 1) / ranks * size / 1073.741824, time):
            return None
        found.append(_row(float(time) * US, size, dtype=dtype, **_run(ranks)))
    return found


def _torch(lines):
    """Two ranks say the size, and every duration a throughput to four decimals: all is fixed."""
    numbers = [_NUMBER.findall(line) for line in lines[1:]]
    ours = [_NUMBER.findall(line) for line in SAMPLES["torch"][0].split("\n")[1:]]
    if numbers != ours[: len(numbers)]:
        return None
    times = [_row(0.5, 4e9), _row(0.25, 4e9)]
    return times[: "\n".join(lines).count("throughput")]


def _extrap(lines):
    """Any file of the grammar with as many lines of data as points: nothing else is told twice."""
    lines = [line.strip() for line in lines]
    text = "\n".join(lines)
    if not _EXTRAP.fullmatch(text):
        return None
    names = [line.split()[1] for line in lines if line.startswith("PARAMETER")]
    points = [point.split() for point in re.findall(r"\(([^()]+)\)", text.split("\nMETRIC")[0])]
    region = re.findall(r"REGION +(.+)", text)[0].strip()
    data = [line.split()[1:] for line in lines if line.startswith("DATA")]
    return _points(names, region, points, data)


_EXTRAP = re.compile(
    r"(?:PARAMETER +\S+\n)+POINTS(?: *\([^()\n]+\))+\n"
    r"METRIC +time\nREGION +[ -~]+(?:\nDATA +[^\n]+)+"
)


def _extrap_json(text):
    run = json.loads(text)
    [(region, metrics)] = run["measurements"].items()
    [(metric, [entry])] = metrics.items()
    keys = {*run} == {"parameters", "measurements"}, {*entry} == {"point", "values"}
    if not all(keys) or metric != "time":
        return None
    return _points(run["parameters"], region, [entry["point"]], [entry["values"]])


def _points(names, region, points, data):
    """Rows whose devices and size are the parameters p and size; any other has no place."""
    known_as = {"allreduce": "all_reduce", "all_reduce": "all_reduce", "reduce": "reduce"}
    op, found = known_as.get(region.lower(), "step"), []
    for point, times in zip(points, data, strict=True):
        known = dict(zip(names, map(float, point), strict=True))
        if known["p"] < 1 or known["p"] % 1 or not all(float(time) > 0 for time in times):
            return None
        told = {"op": op, "devices": int(known["p"])}
        found += [_row(float(time), known.get("size"), **told) for time in times]
    return found


def _microbenchmarks(text):
    """The average is of the raw times, and tells N with the bandwidth: no time changes alone."""
    sample, run = json.loads(SAMPLES["accelerator-microbenchmarks"][0]), json.loads(text)
    dtype, times = run[0]["metadata"]["params"]["dtype"], run[0]["raw_times_ms"]
    if dtype not in ("float16", "bfloat16", "int16", "uint16"):  # of one size
        return None
    run[0]["raw_times_ms"] = sample[0]["raw_times_ms"]
    run[0]["metadata"]["params"]["dtype"] = "bfloat16"
    average = sum(times) / len(times)
    if run != sample or not 0 < len(times) < 4 or min(times) <= 0 or abs(average - 0.1) > 1e-10:
        return None
    return [_row(time / 1e3, 2097152, dtype=dtype) for time in times]


def _mapped(lines):
    """Any numbers under the header's names."""
    found = []
    if lines[0] != "num_gpus,bytes,time_us":
        return None
    for line in filter(None, lines[1:]):
        devices, size, time = map(float, line.split(","))
        if devices < 1 or devices % 1 or time <= 0:
            return None
        found.append(_row(time * US, size, devices=int(devices)))
    return found


FREE_FORM = ("Extra-P", "Extra-P, JSON", "accelerator-microbenchmarks", "mapped CSV")
"""Formats that say nothing twice: every file of their grammar is one."""
ONE_LINE = ("nccl-tests, JSON", "Extra-P, JSON", "accelerator-microbenchmarks")
"""Documents: one that ends early is none."""
LAWS = {
    "nccl-tests": _nccl, "nccl-tests, old": _old, "nccl-tests, JSON": _nccl_json, "OSU": _osu,
    "IMB": _imb, "oneCCL": _oneccl, "oneCCL, CSV": _oneccl_csv, "DeepSpeed": _deepspeed,
    "nccom-test": _nccom, "torch": _torch, "Extra-P": _extrap, "Extra-P, JSON": _extrap_json,
    "accelerator-microbenchmarks": _microbenchmarks, "mapped CSV": _mapped,
}  # fmt: skip
"""By format: the rows of lines of the sample's shape as (devices, size [B], time [s]), or None."""
