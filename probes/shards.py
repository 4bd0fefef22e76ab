"""Arrays that may be spread over several processes: how to make them and what one can see of them.

With one process every shard is here. With several each process holds some, and JAX refuses to read
an array as a whole: a probe makes its operands from shards, and checks the shards that are here.
"""

import jax
import numpy as np


def place(array: np.ndarray, mesh: jax.sharding.Mesh, spec: jax.P) -> jax.Array:
    """An array that every process knows as a whole, each device given its own share of it.

    Args:
        array: the whole array, the same in every process.
        mesh: the devices.
        spec: how the array is spread over them.
    """
    sharding = jax.NamedSharding(mesh, spec)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def local(result: jax.Array) -> np.ndarray:
    """The rows that are here, in their order; of a replicated array, all of them."""
    rows = {
        shard.index[0].start or 0: np.asarray(shard.data) for shard in result.addressable_shards
    }
    return np.concatenate([rows[start] for start in sorted(rows)])
