"""Contracts that any formula or model must keep, for ours and for yours.

    from scaleopt.testing import check_model
    check_model(my_step_time)          # a formula, or an `equinox.Module` that gives seconds

Everything is read from the annotations of `scaleopt.units`: which numbers are physically meaningful
(the strategies here draw them), which dimension the result must have, and in which direction a
time may move. A broken contract is an `AssertionError` that names the argument and the law.
"""

from scaleopt.testing.contracts import check_dimensions as check_dimensions
from scaleopt.testing.contracts import check_directions as check_directions
from scaleopt.testing.contracts import check_gradients as check_gradients
from scaleopt.testing.contracts import check_limits as check_limits
from scaleopt.testing.contracts import check_model as check_model
from scaleopt.testing.contracts import check_transformations as check_transformations
from scaleopt.testing.strategies import Link as Link
from scaleopt.testing.strategies import Work as Work
from scaleopt.testing.strategies import devices as devices
from scaleopt.testing.strategies import links as links
from scaleopt.testing.strategies import machines as machines
from scaleopt.testing.strategies import quantities as quantities
from scaleopt.testing.strategies import reality as reality
from scaleopt.testing.strategies import works as works
from scaleopt.testing.subject import Subject as Subject
from scaleopt.testing.subject import subject as subject
