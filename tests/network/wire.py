"""Bring an emulated network up and down: nodes in namespaces, joined by a switch of known speed.

Nothing outlives the process that asked for it: nodes and switch end with their standard input, and
with them go namespaces and devices. Nothing is written outside a temporary folder.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MTU = 9000
_ETHERNET, _TCP_IP = 14, 52
"""Bytes of headers in a frame: Ethernet's, and those of IP, TCP and its time stamps."""
TURN = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
TOOLS = ("gcc", "ip", "unshare", "nsenter", "taskset", "chrt")


class NetworkError(RuntimeError):
    """The emulated network does not come up."""


@dataclass(frozen=True)
class Wire:
    """What each port of the switch does to a frame."""

    delay: float
    """Seconds one way."""
    rate: float
    """Bytes of frames a second, each way."""

    @property
    def payload_rate(self) -> float:
        """Bytes of a long message a second."""
        return self.rate * (MTU - _TCP_IP) / (MTU + _ETHERNET)


@dataclass(frozen=True)
class Network:
    """Nodes that are up."""

    nodes: tuple[int, ...]
    """The process that holds each node's namespaces."""

    def inside(self, index: int, command: list[str]) -> list[str]:
        """The command that runs a command on a node, on one core and before all other work.

        Else each message would also wait until some other process has had its turn.
        """
        ours = _of_nodes()
        enter = ["nsenter", "--target", str(self.nodes[index]), "--net", "--uts", "--mount"]
        # Entering a mount namespace leads to its root, so the folder is said.
        enter.append(f"--wd={Path.cwd()}")
        core = ["taskset", "--cpu-list", str(ours[index % len(ours)])]
        return [*enter, *core, "chrt", "--rr", "1", *command]

    @staticmethod
    def address(index: int) -> str:
        """Of a node."""
        return f"10.77.0.{index + 1}"


def missing() -> str | None:
    """Why no network can be emulated here; None where one can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "an emulated network needs root, for namespaces and devices"
    if not Path("/dev/net/tun").exists():
        return "an emulated network needs /dev/net/tun, which is not here"
    if not os.access(TURN, os.W_OK):
        return f"an emulated network needs to write {TURN}, and may not"
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"an emulated network needs {', '.join(lacking)}; install them"
    allowed = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "true"], capture_output=True, text=True
    )
    if allowed.returncode:
        return f"namespaces are not allowed here: {allowed.stderr.strip()}"
    return None


@contextlib.contextmanager
def network(count: int, wire: Wire) -> Iterator[Network]:
    """So many nodes, up while the context lasts.

    Args:
        count: of nodes, from 2 to 8.
        wire: delay and rate of every port.

    Raises:
        NetworkError: something refused, with what it said.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_short_turns())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="network-")))
        taps = [f"net{os.getpid()}t{index}" for index in range(count)]
        core = ["taskset", "--cpu-list", str(_cores()[-1])]
        switch = _start(
            stack, [*core, compiled("switch", folder), repr(wire.delay), repr(8 * wire.rate), *taps]
        )
        _await(switch, "ready")
        nodes = []
        for index, tap in enumerate(taps):
            hosts = folder / f"hosts{index}"
            hosts.write_text(f"127.0.0.1 localhost\n{Network.address(index)} node{index}\n")
            script = [
                "sh",
                str(HERE / "node.sh"),
                str(index),
                tap,
                str(MTU),
                str(hosts),
                str(count),
            ]
            node = _start(stack, ["unshare", "--net", "--uts", "--mount", *script])
            _await(node, "ready")
            _run(["ip", "link", "set", tap, "netns", str(node.pid)])
            assert node.stdin is not None
            node.stdin.write("here\n")
            node.stdin.flush()
            _await(node, "up")
            nodes.append(node.pid)
        yield Network(tuple(nodes))


@contextlib.contextmanager
def _short_turns() -> Iterator[None]:
    """Let nodes that share a core take turns of a millisecond while the context lasts.

    A rank that waits busily keeps its core for a whole turn from the one that it waits for; with
    the kernel's 100 ms a program of several small reduce-scatters takes a second.
    """
    before = TURN.read_text()
    TURN.write_text("1")
    try:
        yield
    finally:
        TURN.write_text(before)


def sharing(count: int) -> float:
    """How many of so many nodes share a core."""
    return max(1.0, count / len(_of_nodes()))


def _cores() -> list[int]:
    """The cores there are; the last is the switch's."""
    return sorted(os.sched_getaffinity(0))


def _of_nodes() -> list[int]:
    """The cores that nodes work on."""
    return _cores()[:-1] or _cores()


def compiled(name: str, folder: Path) -> str:
    """The path of one of the programs here, compiled."""
    program = str(folder / name)
    _run(["gcc", "-O2", "-o", program, str(HERE / f"{name}.c")])
    return program


def _start(stack: contextlib.ExitStack, command: list[str]) -> subprocess.Popen[str]:
    """A process that ends with the context."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=5)  # closes its input, which ends it
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _await(process: subprocess.Popen[str], word: str) -> None:
    """Wait until the process says so."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = process.stdout.readline().strip()
    if said != word:
        process.kill()
        what = process.args[0] if isinstance(process.args, list) else process.args
        raise NetworkError(f"{what}: {said} {process.stderr.read().strip()}")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NetworkError(f"{' '.join(command)}: {done.stderr.strip()}")
