"""What it costs: a price for each device and second, over what gets done in that second."""

from scaleopt.units import Count, Dollars, DollarsPerSecond, PerSecond, Seconds, million, real


def run_cost(price: DollarsPerSecond, devices: Count, time: Seconds) -> Dollars:
    """Dollars for keeping devices for a time.

    C = price · N · T

    Args:
        price: [USD/s], of one device; `3 / hour` for three dollars an hour.
        devices: N, number of devices.
        time: T [s].

    Returns:
        C [USD].

    >>> round(float(run_cost(3 / 3600, 8, 7200.0)), 2)
    48.0

    Source: the definition.
    """
    price, devices, time = real(price, devices, time)
    return price * devices * time


def million_tokens_cost(price: DollarsPerSecond, devices: Count, throughput: PerSecond) -> Dollars:
    """Dollars for a million tokens, or anything else that is counted.

    C = 10⁶ · price · N / throughput

    Args:
        price: [USD/s], of one device; `3 / hour` for three dollars an hour.
        devices: N, number of devices.
        throughput: [1/s], tokens a second of all devices together.

    Returns:
        C [USD].

    >>> round(float(million_tokens_cost(3 / 3600, 1, 50.0)), 2)
    16.67

    Source: the definition.
    """
    price, devices, throughput = real(price, devices, throughput)
    return million * price * devices / throughput
