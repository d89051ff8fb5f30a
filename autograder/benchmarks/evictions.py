"""What an eviction costs as the tree grows (ds.07: it follows what is evicted, not the size of the tree).

`ol bench tree`. It knows the contract's calls; which tree it
measures, its caller says.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from autograder.implementations import reference
from course import modules

EVICTIONS = 400
LEAVES = (1_000, 20_000)
ROUNDS = 5


def evict_all_one_by_one(tree_class: Any, leaves: int) -> float:
    """Microseconds for one of 400 evictions of one value, from a tree of so many leaves under a shared prefix.

    Every third leaf is used again after it was stored, so that the order of use is not the order of storing.
    """
    tree = tree_class(4)
    for leaf in range(leaves):
        tree.insert([7, 7, 7, 7, leaf, 1, 2, 3], ["head", leaf])
    for leaf in range(0, leaves, 3):
        tree.match_prefix([7, 7, 7, 7, leaf, 1, 2, 3])
    start = time.perf_counter()
    for _ in range(EVICTIONS):
        tree.evict(1)
    return (time.perf_counter() - start) / EVICTIONS * 1e6


def main() -> None:
    """Measure both sizes in turn, and print each and their ratio."""
    tree_class = reference(modules.find("radix_tree")).RadixTree
    rounds = [[evict_all_one_by_one(tree_class, leaves) for leaves in LEAVES] for _ in range(ROUNDS)]
    for place, leaves in enumerate(LEAVES):
        print(f"{leaves:6,} leaves: {statistics.median(row[place] for row in rounds):5.2f} us an eviction")
    print(f"ratio {statistics.median(row[1] / row[0] for row in rounds):.2f}")


if __name__ == "__main__":
    main()
