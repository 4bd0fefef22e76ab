"""What a tenth better would save: against the models asked directly."""

from dataclasses import replace

import jax
import pytest
import simulated_machine

import scaleopt as so
from scaleopt.models.zero import zero_terms
from scaleopt.planning.plan import plan
from scaleopt.units import GB

GPT = so.Transformer(hidden=2048, layers=24, heads=16, seq_len=1024, vocab=51200)
RESNET = so.DataParallel(sample_flops=24.6e9, gradient_bytes=102e6, state_bytes=409e6)
STEP = so.StepTime(rate=100e12, alpha=1e-5, beta=1 / 20e9)

_total = jax.jit(lambda *run: zero_terms(*run).total)


def seconds(machine, best):
    with jax.enable_x64(True):
        model, split = (jax.tree.map(float, each) for each in (GPT, best.split))
        return float(_total(jax.tree.map(float, machine), model, split, float(best.zero)))


def test_each_constant_saves_what_a_machine_with_it_does():
    machine = simulated_machine.MACHINE
    found = plan(GPT, machine, devices=[32], memory=40 * GB, global_batch=256)
    assert found.best is not None
    saved = found.searched[0].upgrades(found.best)
    now = seconds(machine, found.best)
    assert now == pytest.approx(found.best.step_time, rel=1e-12)
    faster = replace(machine, rate=1.1 * machine.rate)
    assert saved["rate"] == pytest.approx(1 - seconds(faster, found.best) / now)
    thicker = replace(machine, network_beta=machine.network_beta / 1.1)
    assert saved["network_beta"] == pytest.approx(1 - seconds(thicker, found.best) / now, abs=1e-12)
    assert list(saved.values()) == sorted(saved.values(), reverse=True)
    assert min(saved.values()) > -1e-12
    assert "What a tenth better would save:\n  rate of matrix products" in found.explain()


def test_a_step_time_has_one_kind_of_links():
    found = plan(RESNET, STEP, devices=[8], memory=40 * GB, global_batch=64)
    assert found.best is not None
    saved = found.searched[0].upgrades(found.best)
    terms, _ = found.searched[0].breakdown(found.best)
    compute = 1 - (terms["compute"] / 1.1 + terms["gradients"]) / found.best.step_time
    assert saved["rate"] == pytest.approx(compute)
    assert {"alpha", "beta"} <= set(saved)
    assert saved["serial_time"] == 0.0  # there is none
    # Nothing of it bends: all of it a tenth better is a tenth of it.
    assert sum(saved.values()) == pytest.approx(1 - 1 / 1.1, rel=1e-6)
    assert "bandwidth of links" in found.explain()


def test_times_and_rates_are_all_of_a_step():
    """A tenth better each, they save together what a tenth is: none is left out."""
    machine = replace(
        simulated_machine.MACHINE, step_overhead=0.3, micro_batch_overhead=1e-3, jitter=1e-4
    )
    found = plan(GPT, machine, devices=[32], memory=40 * GB, global_batch=256)
    assert found.best is not None
    saved = found.searched[0].upgrades(found.best)
    # To first order in a tenth, of which the second is a hundredth.
    assert sum(saved.values()) == pytest.approx(1 - 1 / 1.1, rel=0.02)
    assert saved["step_overhead"] > 0.01
