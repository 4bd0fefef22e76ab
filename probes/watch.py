"""Watches the processes that measure together, and says which of them is to blame when it fails.

They wait for one another at every step, so when one dies or hangs, all the others soon stand still
or fail. To blame is whoever was killed, else whoever reported an error of its own, else whoever
failed first; and where nobody failed and nothing moves any more, whoever is behind.
"""

import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from probes.rank import BEAT
from probes.timing import now

_LOOK_EVERY = 0.05
_GONE = re.compile(r"unhealthy \(stopped sending heartbeats\):\s+(\d+(?:, ?\d+)*)")
_SILENCE = 4 * BEAT
_GRACE = 1.0
"""Seconds from the first failure until the blame is laid, for others that failed as well."""


class RankError(RuntimeError):
    """A process that takes part died, failed or hangs; says which, why, and where it was."""


@dataclass
class Rank:
    """A process that takes part, as far as it is known from outside."""

    name: str
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    steps: int = 0
    """How many places it has reached."""
    place: str = "starting"
    failure: str = ""
    own: bool = False
    """Whether the failure is of its own making, and not that another is gone."""
    closed: bool = False
    """Whether all it had to say has been heard."""
    failed: float | None = None
    """When it was seen to have failed."""
    heard: float = field(default_factory=now)
    """When it last gave a sign of life."""

    def hear(self, message: dict[str, Any]) -> None:
        """Take note of what it says."""
        self.heard = now()
        self.steps += "doing" in message
        self.place = message.get("doing", self.place)
        self.failure, self.own = message.get("failed", self.failure), message.get("own", self.own)
        self.closed = "closed" in message

    def look(self) -> None:
        """Note when it has failed."""
        if self.failed is None and (self.failure or self.process.poll()):
            self.failed = now()

    @property
    def done(self) -> bool:
        """Whether it has ended well."""
        return self.closed and self.process.poll() == 0

    def blame(self) -> tuple[int, float]:
        """How likely it is the cause, least first."""
        killed = (self.process.poll() or 0) not in (*range(256), -signal.SIGABRT)
        likely = 0 if killed else 1 if self.own else 2 if self.failure else 3
        return likely, self.failed or 0.0

    def reason(self) -> str:
        """Why it ended."""
        code = self.process.poll() or 0
        if self.failure:
            return self.failure
        if code < 0 and code != -signal.SIGABRT:  # JAX aborts a process whose peers are gone
            return f"killed by {signal.Signals(-code).name}"
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        gone = _GONE.search(text)
        if gone:
            return f"JAX gets no sign of life from rank {gone.group(1)}"
        lines = text.splitlines() or ["no word"]
        return f"ended with code {code}: {lines[-1][:400]}"


def watch(
    commands: Sequence[Callable[[int], list[str]]],
    hear: Callable[[dict[str, Any]], None],
    patience: float,
    *,
    names: Sequence[str],
) -> None:
    """Run processes until all have ended well.

    Args:
        commands: for each process, its command, given the end of the pipe it reports to.
        hear: told every message of the first.
        patience: seconds without any movement after which one is taken to hang.
        names: what to call each.

    Raises:
        RankError: one died, failed, or hangs. Whatever of them still runs is killed first.
    """
    messages: queue.SimpleQueue[tuple[Rank, dict[str, Any]]] = queue.SimpleQueue()
    ranks: list[Rank] = []
    try:
        for command, name in zip(commands, names, strict=True):
            ranks.append(_start(command, name, messages))
        _follow(ranks, messages, hear, patience)
    finally:
        for rank in ranks:
            # A process of jax.distributed takes no notice of SIGTERM.
            rank.process.kill()
            rank.process.communicate()
            rank.errors.close()


def _start(
    command: Callable[[int], list[str]],
    name: str,
    messages: "queue.SimpleQueue[tuple[Rank, dict[str, Any]]]",
) -> Rank:
    reading, writing = os.pipe()
    errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the rank
    # In a session of its own, so that Ctrl-C reaches the starter alone, which then ends the rank.
    process = subprocess.Popen(
        command(writing),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=[writing],
        start_new_session=True,
    )
    os.close(writing)
    rank = Rank(name, process, errors)

    def read() -> None:
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # else it was killed in the middle of it
                    messages.put((rank, json.loads(line)))
        messages.put((rank, {"closed": True}))

    threading.Thread(target=read, daemon=True).start()
    return rank


def _follow(
    ranks: list[Rank],
    messages: "queue.SimpleQueue[tuple[Rank, dict[str, Any]]]",
    hear: Callable[[dict[str, Any]], None],
    patience: float,
) -> None:
    """Pass messages on until all have ended; raise when one fails."""
    moved, allowed = now(), patience
    while not all(rank.done for rank in ranks):
        try:
            rank, message = messages.get(timeout=_LOOK_EVERY)
        except queue.Empty:
            pass
        else:
            rank.hear(message)
            if rank is ranks[0]:
                hear(message)
            if "beat" not in message:
                moved, allowed = rank.heard, max(patience, message.get("allowed", 0.0))
                continue
        for rank in ranks:
            rank.look()
        failed = [rank for rank in ranks if rank.failed is not None]
        grace = _GRACE if len(ranks) > 1 else 0.0
        if failed and now() - min(rank.failed or 0.0 for rank in failed) > grace:
            guilty = min(failed, key=Rank.blame)
            if len(ranks) == 1 and guilty.own:
                raise RankError(guilty.failure)
            raise RankError(f"{guilty.name} failed at '{guilty.place}': {guilty.reason()}")
        if not failed and now() - moved > allowed:
            raise RankError(_hang(ranks, allowed))


def _hang(ranks: list[Rank], patience: float) -> str:
    """Who is to blame, when nothing moves any more: who is silent, or else who is behind."""
    silent = [rank for rank in ranks if now() - rank.heard > _SILENCE]
    least = min(rank.steps for rank in ranks)
    guilty = silent or [rank for rank in ranks if rank.steps == least]
    why = "gives no sign of life" if silent else "went no further"
    names = " and ".join(f"{rank.name} {why} at '{rank.place}'" for rank in guilty)
    return f"nothing has moved for {patience:g} s: {names}"
