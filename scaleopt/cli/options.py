"""Options that several commands share, and the workload that two of them describe."""

from typing import Annotated

import typer

_LEVELS = (0.01, 0.999)


def _share(level: float) -> float:
    """The level, where it is one."""
    least, most = _LEVELS
    if not least <= level <= most:
        raise typer.BadParameter(
            f"{level:g}; a level is a share from {least} to {most}, such as 0.95"
        )
    return level


Level = Annotated[
    float, typer.Option(help="Level of every interval, a share such as 0.95.", callback=_share)
]
Work = Annotated[
    str | None,
    typer.Option("--flops", help="Work of your step over all devices, such as '100 TFLOP'."),
]
Size = Annotated[
    str | None, typer.Option("--size", help="Bytes of your gradients, such as '2 GB'.")
]
Most = Annotated[
    int | None,
    typer.Option("--max-devices", min=1, help="The most devices you could use; else those here."),
]


def workload_of(flops: str | None, size: str | None) -> tuple[float, float] | None:
    """Work and size as the user gave them; both or neither."""
    if flops is None and size is None:
        return None
    if flops is None or size is None:
        raise typer.BadParameter("--flops and --size describe one step: give both, or neither")
    from scaleopt.planning.devices.optimum import check_workload
    from scaleopt.units import parse

    try:
        workload = parse(flops, "FLOP"), parse(size, "B")
        check_workload(*workload)
    except ValueError as error:
        raise typer.BadParameter(f"--flops or --size: {error}") from None
    return workload
