"""Training with data parallelism of anything: a convolutional network, a recommender.

Each of d replicas computes its share of the samples, in m micro-batches of b, and the gradients are
summed once. Where the states are sharded (ZeRO-3, FSDP) a device holds 1/d of them, gathers the
weights for the forward and the backward pass of every micro-batch and scatters its gradients.

FLOP of a device   m (b + b½) W          messages   all-reduce of M, or  m (2 all-gathers of the
bytes it holds     S + b A, or S/d + …              weights + a reduce-scatter of M)
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from scaleopt.models.checks import check_numbers
from scaleopt.models.workload import (
    DeviceWork,
    Message,
    Operation,
    divisors,
    plain_flops,
)
from scaleopt.units import Bytes, Count, Flops, Ratio, Scalar, real


class DataSplit(NamedTuple):
    """How the samples of a step are shared."""

    data: Count = 1
    """d, replicas."""
    micro_batch: Count = 1
    """b, samples that pass a device together."""
    accumulation: Count = 1
    """m, micro-batches of a step in each replica."""
    sharded: Scalar = 0
    """1 where weights, gradients and optimizer are split over the replicas."""

    @property
    def devices(self) -> Count:
        """N = d."""
        return self.data

    @property
    def kind(self) -> tuple[Any, ...]:
        """Replicas and what each of them holds, however it cuts its samples."""
        return self.data, self.sharded

    def __str__(self) -> str:
        parts = [f"data {self.data}"] if self.data != 1 else ["one device"]
        parts += [f"micro-batch {self.micro_batch}", f"accumulation {self.accumulation}"]
        return " · ".join([*parts, "sharded states"] if self.sharded else parts)


class DataParallel(eqx.Module):
    """A model trained with data parallelism, as the numbers that give its counts.

    Args:
        sample_flops: W [FLOP], forward and backward pass of one sample.
        gradient_bytes: M [B], of the gradients as they are summed.
        state_bytes: S [B], weights, gradients and the optimizer's numbers.
        weight_bytes: [B], of the weights as they are computed with; M unless given.
        activation_bytes: A [B], kept of one sample for its backward pass.
        moved_bytes: [B], through memory for one sample, in kernels of their own such as norms.
        half_batch: b½, samples at which a device reaches half its rate; 0 where a few do as well.
        messages: of every micro-batch, among all replicas: `Message("all_reduce", 1e6)`.
        sample_messages: the same, whose size is of one sample and grows with the samples.

    Raises:
        ValueError: a number that cannot be.

    >>> resnet = DataParallel(sample_flops=24.6e9, gradient_bytes=102e6, state_bytes=409e6)
    >>> held = resnet.memory(DataSplit(data=8, micro_batch=32, sharded=1))
    >>> f"{held['states'] / 1e6:.0f} MB of states, {held['working'] / 1e6:.0f} MB gathered"
    '51 MB of states, 102 MB gathered'

    Source: S. Li et al., "PyTorch Distributed", VLDB 2020; S. Rajbhandari et al., "ZeRO", SC 2020,
    section 7, for the messages of sharded states.
    """

    sample_flops: Flops
    gradient_bytes: Bytes
    state_bytes: Bytes
    weight_bytes: Bytes
    activation_bytes: Bytes
    moved_bytes: Bytes
    half_batch: Ratio
    messages: tuple[Message, ...]
    sample_messages: tuple[Message, ...]

    def __init__(
        self,
        *,
        sample_flops: Flops,
        gradient_bytes: Bytes,
        state_bytes: Bytes,
        weight_bytes: Bytes | None = None,
        activation_bytes: Bytes = 0.0,
        moved_bytes: Bytes = 0.0,
        half_batch: Ratio = 0.0,
        messages: tuple[Message, ...] = (),
        sample_messages: tuple[Message, ...] = (),
    ) -> None:
        """See the class."""
        self.sample_flops, self.gradient_bytes = sample_flops, gradient_bytes
        self.state_bytes = state_bytes
        self.weight_bytes = gradient_bytes if weight_bytes is None else weight_bytes
        self.activation_bytes, self.moved_bytes = activation_bytes, moved_bytes
        self.half_batch = half_batch
        self.messages, self.sample_messages = tuple(messages), tuple(sample_messages)

    def __check_init__(self) -> None:
        """Refuse impossible numbers as they are written; traced values pass."""
        check_numbers(self, {"sample_flops": 0.0}, above=True)
        names = "gradient", "state", "weight", "activation", "moved"
        check_numbers(self, {f"{name}_bytes": 0.0 for name in names} | {"half_batch": 0.0})

    def splits(self, devices: int, samples: int | None, node_size: int) -> Iterator[DataSplit]:
        """Every d b m that makes the samples, with states on each replica and sharded."""
        if samples is None:
            raise ValueError(
                "global_batch is needed: the samples of a step, or several to choose from"
            )
        each, rest = divmod(samples, devices)
        if rest:
            return
        for micro_batch in reversed(divisors(each)):  # of equals the one with fewest
            for sharded in (0, 1) if devices > 1 else (0,):
                yield DataSplit(devices, micro_batch, each // micro_batch, sharded)

    def samples(self, split: DataSplit) -> Count:
        """B = d b m."""
        return split.data * split.micro_batch * split.accumulation

    def work(self, split: DataSplit) -> DeviceWork:
        """What a device does in a step."""
        data, batch, rounds, sharded = real(*split)
        flops, states, half = real(self.sample_flops, self.state_bytes, self.half_batch)
        owned = states / jnp.where(sharded > 0, data, 1.0)
        # The optimizer reads what it owns of the states and writes it.
        moved = rounds * batch * self.moved_bytes + 2 * owned

        def sent(operation: Operation, size: Bytes, times: Scalar) -> Message:
            return Message(operation, size, data, 1, times, behind=True)

        whole, parts = jnp.where(sharded > 0, 0.0, 1.0), jnp.where(sharded > 0, rounds, 0.0)
        messages = {
            "gradients": (
                sent("all_reduce", self.gradient_bytes, whole),
                sent("reduce_scatter", self.gradient_bytes, parts),
            ),
            "weights": (sent("all_gather", self.weight_bytes, 2 * parts),),
        }
        others = [self._of(message, data, rounds, 1.0) for message in self.messages]
        others += [
            self._of(message, data, rounds, data * batch) for message in self.sample_messages
        ]
        if others:
            messages["messages"] = tuple(others)
        return DeviceWork(
            devices=data,
            products=(plain_flops(rounds * (batch + half) * flops),),
            moved=moved,
            messages=messages,
            rounds=rounds,
            last=True,
        )

    def _of(self, message: Message, data: Count, rounds: Count, samples: Scalar) -> Message:
        """One of the messages that were given, in a step of a split."""
        size, times = message.size * samples, message.times * rounds
        return Message(message.operation, size, data, 1, times, message.behind)

    def memory(self, split: DataSplit) -> dict[str, Bytes]:
        """Bytes that a device holds: states, activations, and weights gathered for a moment."""
        data, batch, _, sharded = real(*split)
        states, weights, kept = real(self.state_bytes, self.weight_bytes, self.activation_bytes)
        return {
            "states": states / jnp.where(sharded > 0, data, 1.0),
            "activations": batch * kept,
            "working": jnp.where(sharded > 0, weights, 0.0),
        }
