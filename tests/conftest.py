"""The tests run on four CPU devices, so that collectives and several device counts are real."""

import hypothesis
import jax
import pytest

jax.config.update("jax_num_cpu_devices", 4)

# The first call of a formula compiles, so no example has a deadline; the draws are always the same.
hypothesis.settings.register_profile("scaleopt", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("scaleopt")


def pytest_configure(config):
    """What has taken long to compile, in another worker or an earlier run, is read again.

    It is found by the program itself, so it is never stale; `pytest --cache-clear` empties it.
    """
    if hasattr(config, "cache"):
        folder = config.cache.mkdir("compiled")
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.fixture(scope="session")
def devices():
    return jax.devices()[:2]
