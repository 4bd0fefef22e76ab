"""Dispatch and transfers: an empty program is empty, a callback calls back, a copy is a copy."""

import jax
import numpy as np
import pytest

from probes import dispatch, transfer
from probes.cell import ProbeError, UnmeasurableError
from probes.timing import seconds_of

pytestmark = pytest.mark.timed


@pytest.mark.parametrize("count", [1, 2])
def test_each_program_holds_what_its_label_says(devices, count):
    for cell in dispatch.cells(devices, [count]):
        assert cell.op == "dispatch"
        assert seconds_of(cell.build()) > 0


def test_a_callback_is_measured_on_one_device(devices):
    labels = [(cell.label, cell.devices) for cell in dispatch.cells(devices, [1, 2])]
    assert labels.count((dispatch.CALLBACK, 1)) == 1
    assert (dispatch.CALLBACK, 2) not in labels


@pytest.mark.parametrize(
    ("label", "complaint"),
    [
        (dispatch.EMPTY, "is not empty but holds"),
        (dispatch.SMALL, "runs 0 additions"),
        (dispatch.CALLBACK, "calls back 0 times"),
    ],
)
def test_a_program_that_holds_something_else_is_refused(label, complaint):
    body = {dispatch.EMPTY: lambda x: x * 2}.get(label, lambda x: x)
    compiled = jax.jit(body).lower(np.zeros(8, np.float32)).compile()
    with pytest.raises(ProbeError, match=complaint):
        dispatch._require_work(compiled, label, "dispatch")


@pytest.mark.parametrize("size", [4, 2**10, 2**22])
def test_a_transfer_arrives_and_shares_nothing(devices, size):
    there, back = transfer.cells(devices, [size])
    array = there.build()()
    kept = np.array(array)
    result = back.build()()
    assert not np.may_share_memory(result, np.asarray(array))
    assert result.nbytes == array.nbytes == size
    assert np.array_equal(np.asarray(array), kept)


def test_what_is_sent_is_never_aligned():
    assert all(transfer.unaligned(size).ctypes.data % 64 for size in (4, 64, 4_096))


def aligned(size):
    raw = np.zeros(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size].view(np.float32)


def test_a_transfer_that_copies_nothing_is_refused(devices):
    """JAX takes over an aligned array on the CPU: sending it costs the same at any size."""
    with pytest.raises(UnmeasurableError, match="shares the array of the host"):
        transfer.require_copy_to(aligned(4_096), devices[0], "to_device of 4096 B")


def test_a_result_that_is_only_shown_is_refused(devices):
    array = jax.device_put(transfer.unaligned(4_096), devices[0])
    with pytest.raises(UnmeasurableError, match="shares the array of the device"):
        transfer.require_copy_from(lambda: np.asarray(array), array, "from_device of 4096 B")


def test_a_transfer_that_arrives_changed_is_refused(devices):
    array = jax.device_put(transfer.unaligned(4_096), devices[0])
    with pytest.raises(ProbeError, match="not what was sent"):
        transfer.require_copy_from(lambda: 2 * np.array(array), array, "from_device of 4096 B")


def test_large_copies_take_longer_than_small_ones(devices):
    """A transfer that copies cannot take the same time for 16 MiB as for 4 bytes."""
    for op in ("to_device", "from_device"):
        small, large = [
            min(seconds_of(program) for _ in range(5))
            for cell in transfer.cells(devices, [4, 2**24])
            if cell.op == op
            for program in [cell.build()]
        ]
        assert large > 3 * small, op
