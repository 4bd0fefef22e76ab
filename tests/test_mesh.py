"""The mesh and the messages of a split, against the collectives of real sharded training steps.

XLA's own partitioner is compared where it does what Megatron does: the gradients' sum, and the
tensor group's. Its program differs in that queries, keys and values are three products, each of
whose gradients it sums apart; so it is 6 sums a layer where one program for each device needs 4.
On sequence parallelism it follows no one's schedule, and it turns sharded weights' gradients into
all-reduces on CPUs; there the explicit program is compared. What XLA merges of equal operations is
left alone: otherwise weights that are to be gathered twice are gathered once and kept. Rings of
keys and values, experts and pipelines are programs of their own: no partitioner makes them.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from oracles.passed_on import DENSE, SPARSE
from oracles.sharded import MODEL

from scaleopt.models.machine import Machine
from scaleopt.models.parallelism import Parallelism
from scaleopt.models.transformer import Transformer
from scaleopt.models.workload_time import machine_messages
from scaleopt.models.zero import zero_terms

GPT = Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
ITEM = 4.0
"""Bytes of a number: all of it in float32."""
FLAGS = " ".join(
    [
        "--xla_disable_hlo_passes=cse",
        # What the program does is not at stake, so it is compiled in a hurry.
        "--xla_backend_optimization_level=0",
        "--xla_cpu_use_fusion_emitters=false",
    ]
)


CASES: dict[str, dict[str, Any]] = {
    "data": {
        "how": "explicit",
        "zero": 0,
        "split": {"data": 8, "accumulation": 2},
        "run": False,
    },
    "data and tensor": {
        "how": "explicit",
        "zero": 0,
        "split": {"data": 2, "tensor": 4},
        "run": False,
    },
    "tensor, sequence, sharded weights": {
        "how": "explicit",
        "zero": 3,
        "split": {"data": 4, "tensor": 2, "accumulation": 2, "sequence_parallel": True},
        "run": True,
    },
    "XLA's data and tensor": {
        "how": "automatic",
        "zero": 0,
        "split": {"data": 2, "tensor": 4, "micro_batch": 2},
        "run": True,
    },
}


def on_eight_devices(command, given):
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, *command],
        input=given,
        env=os.environ | {"XLA_FLAGS": FLAGS, "JAX_NUM_CPU_DEVICES": "8"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


PASSED: dict[str, tuple[str, dict[str, int]]] = {
    "keys and values": ("context", {"context": 4}),
    "experts": ("expert", {"data": 4, "expert": 4}),
    "stages": ("pipeline", {"pipeline": 4, "accumulation": 4, "micro_batch": 2}),
    "chunks": ("pipeline", {"pipeline": 2, "interleave": 2, "accumulation": 4}),
}
"""Which axis is looked at, and the split."""


@pytest.fixture(scope="module")
def passing():
    """What the programs of rings, experts and pipelines run, by case."""
    script = Path(__file__).parent / "oracles" / "passed_on.py"
    printed = on_eight_devices([script], json.dumps(list(PASSED.values())))
    return dict(zip(PASSED, json.loads(printed), strict=True))


@pytest.fixture(scope="module")
def programs():
    """What eight CPU devices run, by case."""
    script = Path(__file__).parent / "oracles" / "sharded.py"
    printed = on_eight_devices([script], json.dumps(list(CASES.values())))
    return dict(zip(CASES, json.loads(printed), strict=True))


def test_the_example_of_the_readme_runs():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[1].split("```")[0]
    assert "split.mesh()" in example
    assert on_eight_devices(["-"], example) == "(16, 128) True\n"


def of_layer(program):
    """Arrays and bytes of one layer's collectives, by operation and group."""
    arrays, sizes = Counter(), Counter()
    for sign, found in ((1, program["layer"]), (-1, program["without"])):
        for operation, group, count, size in found:
            if len(group) > 1:  # among one device there is none
                arrays[operation, tuple(group)] += sign * count
                sizes[operation, tuple(group)] += sign * size
    return arrays, {key: size for key, size in sizes.items() if size}


def predicted(case):
    """Times and bytes of one layer's messages, as `Parallelism` counts them."""
    split = Parallelism(**case["split"])
    times: dict[Any, int] = {}
    sizes: dict[Any, float] = {}
    messages = split.messages(MODEL, zero=case["zero"], precision=ITEM, gradient=ITEM)
    # Without embedding and head, nor norms' scales, which the step has not.
    weights = float(MODEL.weights().layers) - 2 * MODEL.hidden
    share = float(weights / split.tensor / split.counts(MODEL).parameters)
    for axis, sent in messages.items():
        for message in sent:
            stride = int(float(message.stride))
            group = tuple(range(0, int(float(message.group)) * stride, stride))
            if len(group) > 1 and message.times > 0:
                size = float(message.times) * float(message.size)
                times[message.operation, group] = int(float(message.times))
                sizes[message.operation, group] = size * (share if axis == "data" else 1.0)
    return times, sizes


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if case["run"]])
def test_the_sharded_step_is_the_step(programs, case):
    # Float32, summed in another order.
    assert programs[case]["worst"] < 1e-5


@pytest.mark.parametrize("case", [name for name in CASES if not name.startswith("XLA")])
def test_the_collectives_are_the_messages(programs, case):
    arrays, sizes = of_layer(programs[case])
    times, expected = predicted(CASES[case])
    assert sizes == pytest.approx(expected, rel=1e-5)
    tensor = CASES[case]["split"].get("tensor", 1)
    for key in times:
        if key[1] == tuple(range(tensor)):  # gradients are one array for each weight
            assert arrays[key] == times[key]


def test_xla_sums_the_same_over_the_same_groups(programs):
    case = "XLA's data and tensor"
    arrays, sizes = of_layer(programs[case])
    times, expected = predicted(CASES[case])
    data, tensor = ("all_reduce", (0, 4)), ("all_reduce", (0, 1, 2, 3))
    assert sizes[data] == pytest.approx(expected[data], rel=1e-5)
    message = expected[tensor] / times[tensor]
    # Two forward; backward one of the MLP, and one each of queries, keys and values.
    assert (times[tensor], arrays[tensor]) == (4, 6)
    assert sizes[tensor] == pytest.approx(6 * message)
    assert set(sizes) == {data, tensor}


@pytest.mark.parametrize("case", PASSED)
def test_what_is_passed_on_is_as_often_and_as_large(passing, case):
    axis, given = PASSED[case]
    split = Parallelism(**given)
    model = SPARSE if axis == "expert" else DENSE
    (message,) = split.messages(model, precision=ITEM)[axis]
    operation = {"send": "collective_permute"}.get(message.operation, message.operation)
    found = [[g, size] for op, g, _, size in passing[case]["collectives"] if op == operation]
    layers = model.layers if axis != "pipeline" else 1
    assert len(found) == float(message.times) / layers
    # A permute is told by what one device sends, an all-to-all by the array of all of them.
    share = float(message.group) if operation == "all_to_all" else 1.0
    for group, size in found:
        assert sorted(group) == list(range(int(float(message.group))))
        assert size == float(message.size) / share


@pytest.mark.parametrize("case", PASSED)
def test_what_is_passed_on_gives_the_gradients_of_one_device(passing, case):
    # Float32, summed in another order.
    assert passing[case]["worst"] < 1e-5


def test_the_mesh_is_in_the_order_of_the_ranks():
    split = Parallelism(data=2, tensor=2)
    mesh = split.mesh()
    assert mesh.axis_names == ("pipeline", "data", "context", "tensor")
    assert dict(mesh.shape) == {"pipeline": 1, "data": 2, "context": 1, "tensor": 2}
    ids = [[device.id for device in row] for row in mesh.devices[0, :, 0, :]]
    assert ids == [[0, 1], [2, 3]]
    few = Parallelism(tensor=2).mesh(jax.devices()[2:])
    assert [device.id for device in few.devices.ravel()] == [2, 3]
    says = "pipeline 1 × data 8 × context 1 × tensor 2 takes 16 devices, and there are 4"
    with pytest.raises(ValueError, match=says):
        Parallelism(data=8, tensor=2).mesh()


def test_stages_have_layers_of_their_own():
    split = Parallelism(pipeline=2, tensor=2)
    specs = split.specs()
    sharding = jax.NamedSharding(split.mesh(), specs.stacked(specs.outward))
    weights = jax.device_put(jnp.zeros((8, 64, 32)), sharding)
    assert {shard.data.shape for shard in weights.addressable_shards} == {(4, 64, 16)}


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("along", [False, True])
def test_the_messages_take_what_the_machine_says(zero, along):
    machine = Machine(
        rate=2e14,
        bandwidth=1.5e12,
        alpha=8e-6,
        beta=5e-12,
        network_alpha=2e-5,
        network_beta=5e-11,
        overlap=0.3,
    )
    split = Parallelism(
        data=8, tensor=4, context=2, accumulation=4, recompute="full", sequence_parallel=along
    )
    terms = zero_terms(machine, GPT, split, zero)
    messages = split.messages(GPT, zero=zero)
    inside = sum(float(machine_messages(machine, messages[a])) for a in ("tensor", "context"))
    assert inside == pytest.approx(float(terms.tensor + terms.context), rel=1e-5)
    data = float(machine_messages(machine, messages["data"], rounds=4))
    assert data == pytest.approx(float(terms.data), rel=1e-5)


def test_a_stage_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="zero is 5; the stages are 0"):
        Parallelism(data=2).specs(zero=5)
