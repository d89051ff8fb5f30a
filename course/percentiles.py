"""Percentiles, as everybody here takes them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of all lie at or below, between two neighbours in proportion.

    With few values a high percentile is close to the largest one. Raises ValueError without a value, or for a
    percentage that is not from 1 to 99.
    """
    if not values or not 1 <= percent <= 99:
        raise ValueError(f"a percentile from 1 to 99 of at least one value, not {percent} of {len(values)}")
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
