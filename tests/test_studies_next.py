"""What the study of the next measurement found, on its quick tables."""

import next_measurement


def test_choosing_needs_at_most_half_of_the_device_seconds_of_plain_sweeps():
    numbers = next_measurement.courses(12, ("plain sweeps", "chosen"))
    assert next_measurement.saving(numbers) >= 2
