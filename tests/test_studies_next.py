"""What the study of the next measurement found, on its quick tables."""

import next_measurement


def test_choosing_needs_at_most_half_of_the_device_seconds_of_plain_sweeps():
    numbers = next_measurement.courses(12, ("plain sweeps", "chosen"), rounds=1)
    sweep, chosen = (row for _, row in numbers.iterrows())
    assert chosen["device_seconds"] <= sweep["device_seconds"] / 2
    # Twelve tables place each spread to a fifth, so two that are the same may differ by a third.
    assert chosen["spread"] <= 1.33 * sweep["spread"]
