"""A plan written down in TOML: the model, the run, what can be rented.

    [model]                        # sizes of a Transformer, or config = "config.json"
    [workload]                     # or other work, of the kind that it names
    [run]                          # global_batch, tokens, objective, limits
    [search]                       # optional: recompute, zero, max_micro_batch, reserve …
    [[offer]]                      # devices, memory, price, and a machine or a table to fit one to;
                                   # device = "H100 SXM" for what the catalogue prints of one

Quantities are numbers in SI or text with a unit ("80 GB", "312 TFLOP/s", "720 h"); prices are USD a
device and hour. Files are found beside the TOML file.
"""

import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaleopt.data.catalog import NotKnownError
from scaleopt.models.machine import Machine
from scaleopt.models.memory import Precision
from scaleopt.models.transformer import Transformer
from scaleopt.planning.asking.given import is_number
from scaleopt.planning.asking.model_config import read_model
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.asking.workload_wishes import workload_of
from scaleopt.planning.asking.written import above_0, known, made, quantities, quantity, table_of
from scaleopt.planning.plan import plan
from scaleopt.planning.result import Plan
from scaleopt.planning.searching.search import Tiles
from scaleopt.units import MB, hour

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit

_RUN = {
    "global_batch": "",
    "tokens": "",
    "samples": "",
    "steps": "",
    "critical_batch": "",
    "objective": "",
    "budget": "",
    "deadline": "s",
    "min_mfu": "",
    "min_efficiency": "",
}
"""What `[run]` may say, with the unit of a quantity."""
_SEARCH = (
    "recompute",
    "sequence_parallel",
    "zero",
    "schedule",
    "max_micro_batch",
    "max_context",
    "max_expert",
    "reserve",
    "draws",
    "level",
)
_OFFER = {
    "name": "",
    "device": "",
    "devices": "",
    "memory": "B",
    "price": "",
    "power": "",
    "peak_rate": "FLOP/s",
    "between_interruptions": "s",
    "checkpoint": "s",
    "restart": "s",
}
"""What an offer may say; how long a device runs between interruptions on average."""
_MACHINE = {
    "rate": "FLOP/s",
    "bandwidth": "B/s",
    "alpha": "s",
    "network_alpha": "s",
    "kernel": "s",
    "host": "s",
    "jitter": "s",
    "micro_batch_overhead": "s",
    "step_overhead": "s",
}
"""Constants of a machine that are written with a unit; links as bandwidths, the rest as numbers."""
_LINKS = {"link": "beta", "network": "network_beta"}


def plan_from_file(path: str | Path, *, watch: Callable[[Tiles], Tiles] = iter) -> Plan:
    """The plan that a TOML file asks for.

    Args:
        path: the file.
        watch: what the tiles of the search pass on their way, such as a progress bar.

    Raises:
        ValueError: what the file says wrong, with its place there.
        TypeError: what is no number there.
        FileNotFoundError: there is no such file, or none that it names.
    """
    path = Path(path)
    try:
        return _planned(path, watch)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8, as a TOML file is") from None
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{path}: {error}") from None


def _planned(path: Path, watch: Callable[[Tiles], Tiles]) -> Plan:
    """The plan; what is wrong is said without the file's name."""
    try:
        wishes = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is no TOML: {error}") from None
    known(wishes, ("model", "workload", "run", "search", "precision", "offer"), "the file")
    work = "workload" in wishes
    if work and "model" in wishes:
        raise ValueError("it has a [model] and a [workload]; a plan is made for one")
    for name in ("run", "offer") if work else ("model", "run", "offer"):
        if name not in wishes:
            head = "[[offer]]" if name == "offer" else f"[{name}]"
            raise ValueError(f"it has no {head}; see examples/ for what it holds")
    offers = wishes["offer"] if isinstance(wishes["offer"], list) else [wishes["offer"]]
    for place, offer in enumerate(offers, 1):
        table_of(offer, f"[[offer]] {place}")
    for name in wishes.keys() - {"offer"}:
        table_of(wishes[name], f"[{name}]")
    run = quantities(wishes["run"], _RUN, "[run]")
    if "global_batch" not in run and not work:
        raise ValueError("[run] has no global_batch; give the sequences of a step, or several")
    search = wishes.get("search", {})
    known(search, _SEARCH, "[search]")
    sizes = wishes.get("precision", {})
    return plan(
        workload_of(wishes["workload"]) if work else _model(wishes["model"], path.parent),
        [_offer(offer, path.parent, place) for place, offer in enumerate(offers, 1)],
        precision=made(Precision, sizes, "[precision]") if sizes else None,
        watch=watch,
        **run,
        **search,
    )


def _model(written: dict[str, Any], folder: Path) -> Transformer:
    """From sizes, or from a `config.json` with what is to differ from it."""
    written = dict(written)
    config = written.pop("config", None)
    for name, size in written.items():
        if not isinstance(size, (int, float)):
            raise ValueError(f"[model]: {name} is {size!r}; give a number, or true or false")
    if config is not None:
        if not isinstance(config, str):
            raise ValueError(f"[model]: config is {config!r}; give a file's name, in quotes")
        return read_model(folder / config, **written)
    return made(Transformer, written, "[model]")


def _offer(written: dict[str, Any], folder: Path, place: int) -> Offer:
    where = f"[[offer]] {place}"
    written = dict(written)
    machine, table = written.pop("machine", None), written.pop("table", None)
    if (machine is None) == (table is None):
        raise ValueError(f"{where} needs either a machine or a table of measurements to fit one to")
    given = quantities(written, _OFFER, where)
    if "price" in given:
        if not is_number(given["price"]):
            raise ValueError(
                f"{where}: price is {given['price']!r}; give a number, in USD a device and hour, "
                "such as 2.5"
            )
        price = float(given["price"])
        if not price >= 0:
            raise ValueError(f"{where}: price is {price:g} USD an hour; it must be 0 or more")
        given["price"] = price / hour
    if "between_interruptions" in given:
        between = given.pop("between_interruptions")
        given["interruptions"] = 1 / above_0(between, f"{where}: between_interruptions")
    device = given.pop("device", None)
    for name in ("devices", "memory") if device is None else ("devices",):
        if name not in given:
            raise ValueError(f"{where} has no {name}")
    made_on = _fitted(folder / table) if machine is None else _machine(machine, f"{where} machine")
    try:
        return Offer(made_on, **given) if device is None else Offer.of(device, made_on, **given)
    except (ValueError, TypeError, NotKnownError) as error:
        raise ValueError(f"{where}: {error}") from None


def _fitted(path: Path) -> "Fit[Any]":
    from scaleopt.data.reading import read_measurements
    from scaleopt.fitting.calibrate import calibrate

    return calibrate(read_measurements(path).table)


def _machine(written: dict[str, Any], where: str) -> Machine:
    table_of(written, where)
    others = [it.name for it in fields(Machine) if it.name not in _LINKS.values()]
    known(written, (*others, *_LINKS, *_LINKS.values()), where)
    if "link" not in written and "beta" not in written:
        raise ValueError(f"{where} has no link, the bandwidth inside a node, such as '200 GB/s'")
    numbers = {name: value for name, value in written.items() if name not in _LINKS}
    for link, name in _LINKS.items():
        if link in written:
            place = f"{where}: {link}"
            speed = above_0(quantity(written[link], "B/s", place), place)
            if speed < MB:
                raise ValueError(f"{place} is {speed:g} B/s; write it with its unit, as '200 GB/s'")
            numbers[name] = 1 / speed
    units = _MACHINE | dict.fromkeys(set(numbers) - set(_MACHINE), "")
    return made(Machine, quantities(numbers, units, where), where)
