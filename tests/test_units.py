"""Quantities in and out."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scaleopt
from scaleopt.units import GB, GiB, format_si, parse


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("25 GB/s", "B/s", 25e9),
        ("25GB/s", "B/s", 25e9),
        ("100 Gbit/s", "B/s", 12.5e9),
        ("8 us", "s", 8e-6),
        ("8 µs", "s", 8e-6),
        ("1.5e2 ms", "s", 0.15),
        ("2 h", "s", 7200.0),
        ("80 GiB", "B", 80 * 2**30),
        ("120 TFLOP/s", "FLOP/s", 120e12),
        ("0.04 ns/B", "s/B", 4e-11),
        ("40 ps/B", "s/B", 4e-11),
        ("10 B/us", "B/s", 1e7),
    ],
)
def test_parse(text, unit, value):
    assert parse(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "unit", "complaint"),
    [
        ("25", "B/s", "'25' has no unit; write it with one, such as '25 B/s'"),
        ("fast", "B/s", "not a number with a unit"),
        ("", "s", "not a number with a unit"),
        ("25 GB", "B/s", "is in B, and a quantity in B/s is needed"),
        ("25 furlong", "s", "unit 'furlong' in '25 furlong' is unknown"),
        ("5 TFLOPS", "FLOP/s", "write FLOP for a count or FLOP/s for a rate"),
        ("100 Gb/s", "B/s", "write bit or B"),
        ("1 GB/s/s", "B/s", "is in B/s/s"),
    ],
)
def test_what_is_not_a_quantity_is_refused(text, unit, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse(text, unit)


def test_a_gigabyte_is_not_a_gibibyte():
    assert GiB / GB == pytest.approx(1.073741824)
    assert parse("1 GiB", "B") != parse("1 GB", "B")


@given(st.floats(1e-14, 1e17, allow_subnormal=False), st.sampled_from(["s", "B/s", "FLOP", "B"]))
def test_what_is_written_reads_back(value, unit):
    assert parse(format_si(value, unit, digits=6), unit) == pytest.approx(value, rel=1e-5)


def test_format_of_the_ends_of_a_range():
    assert format_si(float("inf"), "s") == "∞ s"
    assert format_si(float("nan"), "s") == "unknown s"
    assert format_si(999.9999, "B") == "1 kB"
    assert format_si(-2e-6, "s") == "-2 µs"


def test_multipliers_stand_only_in_units():
    """Of numbers in code; texts and docstrings may name any."""
    multipliers = {1e6, 1e9, 1e12, 2**10, 2**20, 2**30}
    package = Path(scaleopt.__file__).parent
    found = [
        f"{path.name}:{token.start[0]}: {token.line.strip()}"
        for path in sorted(package.rglob("*.py"))
        # Ranges of what is real are numbers of every size, in SI, and no conversion.
        if path.name not in ("units.py", "strategies.py")
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NUMBER and ast.literal_eval(token.string) in multipliers
    ]
    assert not found
