"""The machine that is measured: which devices, how many cores, which versions and flags.

On CPU a device stands for one physical core. XLA gives every CPU device all cores, so one device
would already compute as fast as two; while N devices are measured the process is confined to N
cores, and a second device then adds what a second core adds.
"""

import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

import jax
import psutil

from probes.timing import timestamp
from scaleopt.data.join import likeness

Device: TypeAlias = Any
"""A `jax.Device`; JAX ships it without types."""

_MOST_BY_DEFAULT = 8
_CONFIGURED = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_cpu_collectives_implementation",
)
_PLUGINS = re.compile(r"jax-(cuda|rocm|tpu).*|libtpu.*|nvidia-nccl-.*|.*rccl.*")
"""Packages that bring a backend or its library of collectives."""
_WATCHED = ("XLA_", "JAX_", "NCCL_", "OMP_", "CUDA_", "LIBTPU_")


class DeviceError(RuntimeError):
    """The devices asked for are not to be had."""


def start_devices(wanted: int | None = None) -> list[Device]:
    """Start the backend and return its devices.

    Args:
        wanted: how many to use; on CPU that many are made, elsewhere the first so many are taken.
            Without it all accelerators, or one CPU device for each physical core: from 2, so that
            there is something to communicate, up to 8, so that measuring stays short.

    Raises:
        DeviceError: fewer devices than wanted, or a backend that was started before.
    """
    if wanted is not None and wanted < 1:
        raise DeviceError(f"--devices {wanted}: at least one device is needed")
    on_cpu = wanted or min(max(len(physical_cores()), 2), _MOST_BY_DEFAULT)
    try:
        jax.config.update("jax_num_cpu_devices", on_cpu)
    except RuntimeError as error:
        raise DeviceError(
            f"JAX was started before its number of CPU devices could be set ({error}); "
            "probe in a fresh process"
        ) from error
    try:
        devices = jax.devices()
    except (RuntimeError, AssertionError) as error:
        asked = os.environ.get("JAX_PLATFORMS", "")
        raise DeviceError(
            f"JAX finds no device for JAX_PLATFORMS={asked!r} ({str(error)[:200]}); unset it, or "
            "set it to cpu"
        ) from error
    if wanted is not None and len(devices) < wanted:
        raise DeviceError(
            f"--devices {wanted}: JAX finds {len(devices)} {devices[0].device_kind}; ask for at "
            "most that many, or set JAX_PLATFORMS=cpu to try on CPU devices"
        )
    return devices[:wanted]


def join_devices(meeting: dict[str, Any]) -> list[Device]:
    """Meet the other processes, and return the devices of all.

    Each process brings one CPU device, or the accelerators that it sees.

    Args:
        meeting: arguments of `jax.distributed.initialize`; without any it looks for the others
            where the launcher of the job says they are.

    Raises:
        DeviceError: the others are not to be found.
    """
    jax.config.update("jax_num_cpu_devices", 1)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(**meeting)
        return jax.devices()
    except (RuntimeError, ValueError) as error:
        raise DeviceError(
            f"the other processes are not found ({str(error)[:200]}); start all of them, with the "
            "same --coordinator and --num-processes, and a --process-id each from 0"
        ) from error


def physical_cores() -> list[int]:
    """One logical processor for each physical core that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(psutil.cpu_count(logical=False) or 1))
    seen: set[str] = set()
    chosen = []
    for processor in sorted(os.sched_getaffinity(0)):
        shared = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
        core = shared.read_text() if shared.exists() else str(processor)
        if core not in seen:
            seen.add(core)
            chosen.append(processor)
    return chosen[: _quota(len(chosen))]


def _quota(cores: int) -> int:
    """Cores that the control group grants, at most those there are."""
    limit = Path("/sys/fs/cgroup/cpu.max")
    if not limit.exists():
        return cores
    granted, period = limit.read_text().split()
    return cores if granted == "max" else max(1, min(cores, int(granted) // int(period)))


class Confinement:
    """Keeps the process to as many cores as CPU devices are at work; undone at the end."""

    def __init__(self, cores: list[int], active: bool) -> None:
        self.active = (
            active and hasattr(os, "sched_setaffinity") and Path("/proc/self/task").exists()
        )
        self._cores = cores
        self._all = sorted(os.sched_getaffinity(0)) if self.active else []

    def hold(self, devices: int) -> None:
        """Confine every thread to one core a device, or to all where devices outnumber cores."""
        self._apply(self._cores[:devices])

    def release(self) -> None:
        """Give every thread all cores back."""
        self._apply(self._all)

    def _apply(self, cores: list[int]) -> None:
        if not self.active:
            return
        for thread in Path("/proc/self/task").iterdir():
            try:
                os.sched_setaffinity(int(thread.name), cores)
            except ProcessLookupError:
                continue  # a thread that ended meanwhile needs no core


def oversubscribed(devices: int, platform_name: str) -> bool:
    """Whether CPU devices outnumber the physical cores they run on."""
    return platform_name == "cpu" and devices > len(physical_cores())


def describe(devices: list[Device]) -> dict[str, Any]:
    """What was true of the whole run, as it goes into the table's first line."""
    first = devices[0]
    found = {
        "date": timestamp(),
        "host": platform.node(),
        "platform": first.platform,
        "device_kind": first.device_kind,
        "devices": len(devices),
        "processor": _processor(),
        "physical_cores": len(physical_cores()),
        "memory_bytes": psutil.virtual_memory().total,
        "oversubscribed": oversubscribed(len(devices), first.platform),
        "backend": first.client.platform_version.strip(),
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()}",
        "versions": _versions(),
        "driver": _driver(),
        "affinity": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "caches": _caches(),
        "topology": _topology(devices),
        "configuration": {
            name: jax.config.values[name] for name in _CONFIGURED if name in jax.config.values
        },
        "load": round(psutil.getloadavg()[0], 2),
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_WATCHED)
        },
    }
    return found | {"likeness": likeness(found)}


def _versions() -> dict[str, str]:
    """Of what computes and communicates, as far as it is installed as packages."""
    wanted = ("jax", "jaxlib", "numpy", "scaleopt")
    found = {name: importlib.metadata.version(name) for name in wanted}
    names = {
        (package.name or "").lower(): package.version
        for package in importlib.metadata.distributions()
    }
    plugins = {name: names[name] for name in sorted(names) if _PLUGINS.fullmatch(name)}
    return found | plugins


def _driver() -> str | None:
    """The accelerator's driver in the kernel, where the system tells it."""
    for told in ("/proc/driver/nvidia/version", "/sys/module/amdgpu/version"):
        if Path(told).exists():
            return Path(told).read_text().splitlines()[0].strip()
    return None


def _topology(devices: list[Device]) -> list[dict[str, Any]]:
    """Where each device stands, as far as the backend tells."""
    told = ("id", "process_index", "local_hardware_id", "coords", "core_on_chip", "slice_index")
    return [
        {name: getattr(device, name) for name in told if getattr(device, name, None) is not None}
        for device in devices
    ]


def _caches() -> dict[str, str]:
    """The first processor's caches, level by level."""
    found = {}
    for cache in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        parts = [cache / name for name in ("level", "type", "size")]
        if all(part.exists() for part in parts):
            level, kind, size = (part.read_text().strip() for part in parts)
            found[f"L{level} {kind.lower()}"] = size
    return found


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    table = Path("/proc/cpuinfo")
    if table.exists():
        for line in table.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
