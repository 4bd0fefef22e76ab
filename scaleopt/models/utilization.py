"""What share of the arithmetic that was paid for did the model's own work.

Between 40 and 50 % of the dense peak of the type in use is good for training large transformers
(PaLM reports 46 %, Megatron-LM up to 52 %); below 20 % something else than arithmetic limits, and
`StepTime.terms` or a roofline says what. A share without the type of its peak says nothing: the
same step has half the MFU against the float8 peak that it has against the bfloat16 one.
"""

from scaleopt.units import Count, Flops, FlopsPerSecond, Ratio, Seconds, real


def model_flops_utilization(
    flops: Flops, step_time: Seconds, devices: Count, peak_rate: FlopsPerSecond
) -> Ratio:
    """MFU: the share of peak that the model's own FLOP reach, recomputation not counted.

    MFU = W / (T N peak)

    Args:
        flops: W [FLOP], of the model's forward and backward pass, over all devices.
        step_time: T [s].
        devices: N, number of devices.
        peak_rate: [FLOP/s], of one device, dense, in the type that the products are done in.

    Returns:
        MFU, 1 at the peak.

    >>> round(float(model_flops_utilization(1e17, 1.0, 256, 990e12)), 3)
    0.395

    Source: A. Chowdhery et al., "PaLM", JMLR 24, 2023, appendix B.
    """
    flops, step_time, devices, peak_rate = real(flops, step_time, devices, peak_rate)
    return flops / peak_rate / devices / step_time


def hardware_flops_utilization(
    flops: Flops, recomputed: Flops, step_time: Seconds, devices: Count, peak_rate: FlopsPerSecond
) -> Ratio:
    """HFU: the share of peak that all FLOP reach, those done again to save memory among them.

    HFU = (W + W_again) / (T N peak), never below MFU

    Args:
        flops: W [FLOP], of the model's forward and backward pass, over all devices.
        recomputed: W_again [FLOP], of activations computed a second time.
        step_time: T [s].
        devices: N, number of devices.
        peak_rate: [FLOP/s], of one device, dense, in the type that the products are done in.

    Returns:
        HFU, 1 at the peak.

    >>> round(float(hardware_flops_utilization(1e17, 0.33e17, 1.0, 256, 990e12)), 3)
    0.525

    Source: V. Korthikanti et al., "Reducing activation recomputation in large transformer models",
    MLSys 2023, section 6.
    """
    flops, recomputed = real(flops, recomputed)
    return model_flops_utilization(flops + recomputed, step_time, devices, peak_rate)
