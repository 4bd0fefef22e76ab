"""Work that is no transformer, written down in TOML."""

import pytest

from scaleopt.models.data_parallel import DataParallel
from scaleopt.models.machine import Machine
from scaleopt.models.workload import Message
from scaleopt.planning.asking.wish_list import plan_from_file
from scaleopt.planning.plan import plan
from scaleopt.units import GB, MB

FILE = """
[workload]
kind = "data_parallel"
sample_flops = "24.6 GFLOP"
gradient_bytes = "102 MB"
state_bytes = 409e6
messages = [{operation = "all_reduce", size = "1 MB", times = 2}]
[run]
global_batch = 256
samples = 1e6
[[offer]]
devices = 16
memory = "40 GB"
[offer.machine]
rate = "100 TFLOP/s"
bandwidth = "1.5 TB/s"
alpha = "8 us"
link = "200 GB/s"
"""


def test_a_file_gives_the_plan_that_python_gives(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    written = plan_from_file(path)
    machine = Machine(rate=1e14, bandwidth=1.5e12, alpha=8e-6, beta=5e-12)
    work = DataParallel(
        sample_flops=24.6e9,
        gradient_bytes=102 * MB,
        state_bytes=409 * MB,
        messages=(Message("all_reduce", 1e6, times=2),),
    )
    found = plan(work, machine, devices=16, memory=40 * GB, global_batch=256, samples=1e6)
    assert written.best is not None
    assert found.best is not None
    assert written.best.row() == found.best.row()
    assert "messages" in written.searched[0].breakdown(written.best)[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("data_parallel", "magic"), "kind = 'magic'; known are 'data_parallel', 'halo', 'matmul'"),
        (("gradient_bytes", "gradients"), "does not know 'gradients'; it takes sample_flops"),
        (('"24.6 GFLOP"', '"24.6 GB"'), "sample_flops: '24.6 GB' is in B"),
        (('gradient_bytes = "102 MB"', ""), r"\[workload\] has no gradient_bytes"),
        (('kind = "data_parallel"', ""), r"\[workload\] has no kind; it is one of 'data_parallel'"),
        (("sample_flops", "grid = 1024\nsample_flops"), "grid is 1024; give its sides, as"),
        (('"1 MB", times = 2}]', '"1 MB", times = 2}, 3]'), "messages is 3; it is a table"),
        (("samples = 1e6", "samples = nan"), "samples of the run: nan; give above 0"),
        (("all_reduce", "shout"), "messages: operation is one of all_reduce, all_gather"),
        (("[run]", "[model]\nhidden = 8\n[run]"), r"has a \[model\] and a \[workload\]"),
        (("global_batch = 256", ""), "global_batch is needed: the samples of a step"),
        (("global_batch", "tokens = 1e9\nglobal_batch"), "tokens is of a Transformer, not of a"),
    ],
)
def test_a_file_that_cannot_be_is_refused(change, says, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(FILE.replace(*change))
    with pytest.raises(ValueError, match=says):
        plan_from_file(path)
