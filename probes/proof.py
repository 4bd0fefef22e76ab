"""What a compiled program does in one call, read from its text: XLA's own account of what is left.

XLA removes work whose result it can infer, merges equal work, and lifts out of a loop what does not
change in it. So each probe counts its operation here, in the program that is timed: the entry is
followed into loops, as often as they turn, into calls, branches and fusions.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import jax

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (.*?) ?\b([a-z][\w\-]*)\((.*)$")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_PRODUCT = re.compile(r'custom_call_target="[^"]*(gemm|matmul|dot)', re.IGNORECASE)
_NO_WORK = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "call"}
"""Instructions that only name what is there, or whose work is counted inside them."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of a compiled program."""

    opcode: str
    result: str
    """Type and shape, such as `f32[64]{0}`."""
    rest: str
    """Operands and attributes."""
    times: int
    """How often it runs in one call of the program."""
    fused: bool
    """Whether it is part of a larger kernel."""


def instructions(compiled: jax.stages.Compiled, trips: int = 1) -> Iterator[Instruction]:
    """Every instruction that a call of the program runs, and how often.

    Args:
        compiled: the program.
        trips: of a loop that does not state how often it turns.
    """
    bodies, entry = _computations(compiled.as_text() or "")
    return _follow(bodies, entry, 1, trips, fused=False)


def count_in_program(compiled: jax.stages.Compiled, operation: str, trips: int = 1) -> int:
    """How often an operation runs in one call of the program, started asynchronously or not.

    Args:
        compiled: the program.
        operation: the opcode, such as "all-reduce".
        trips: of a loop that does not state how often it turns.
    """
    return sum(
        found.times
        for found in instructions(compiled, trips)
        if found.opcode in (operation, f"{operation}-start")
    )


def matrix_products(compiled: jax.stages.Compiled) -> int:
    """How many matrix products a call of the program runs, by XLA itself or by a library."""
    return sum(
        found.times
        for found in instructions(compiled)
        if found.opcode in ("dot", "convolution")
        or (found.opcode == "custom-call" and _PRODUCT.search(found.rest))
    )


def passes_over(compiled: jax.stages.Compiled, elements: int, trips: int = 1) -> int:
    """How many kernels of a call write an array of so many floats: each is one pass over memory.

    Args:
        compiled: the program.
        elements: of the array on each device.
        trips: of a loop that does not state how often it turns.
    """
    return sum(
        found.times
        for found in instructions(compiled, trips)
        if f"f32[{elements}]" in found.result and not found.fused and found.opcode not in _NO_WORK
    )


def _computations(text: str) -> tuple[dict[str, list[str]], str]:
    """The lines of each computation, and the name of the one that is called first."""
    bodies: dict[str, list[str]] = {}
    entry = current = ""
    for line in text.splitlines():
        head = _COMPUTATION.match(line)
        if head and " -> " in line:
            current = head[2]
            bodies[current] = []
            entry = current if head[1] else entry
        elif current:
            bodies[current].append(line)
    return bodies, entry


def _follow(
    bodies: dict[str, list[str]], name: str, times: int, trips: int, *, fused: bool
) -> Iterator[Instruction]:
    for line in bodies.get(name, []):
        match = _INSTRUCTION.match(line)
        if not match:
            continue
        result, opcode, rest = match[1], match[2], match[3]
        yield Instruction(opcode, result, rest, times, fused)
        if opcode == "while":
            stated = _TRIPS.search(rest)
            turns = int(stated[1]) if stated else trips
            yield from _follow(bodies, _named(rest, "body"), times * turns, trips, fused=fused)
        elif opcode == "call":
            yield from _follow(bodies, _named(rest, "to_apply"), times, trips, fused=fused)
        elif opcode == "fusion":
            yield from _follow(bodies, _named(rest, "calls"), times, trips, fused=True)


def _named(rest: str, attribute: str) -> str:
    """The computation that an attribute names."""
    match = re.search(rf"\b{attribute}=%?([\w.\-]+)", rest)
    return match[1] if match else ""
