"""The tests run on four CPU devices, so that collectives and several device counts are real."""

import hypothesis
import jax
import pytest

jax.config.update("jax_num_cpu_devices", 4)

# The first call of a formula compiles, so no example has a deadline; the draws are always the same.
hypothesis.settings.register_profile("scaleopt", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("scaleopt")


@pytest.fixture(scope="session")
def devices():
    return jax.devices()[:2]
