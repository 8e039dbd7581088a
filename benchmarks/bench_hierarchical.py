"""The hierarchical partition against the linkage alone, which it cannot do without.

Run ``python benchmarks/bench_hierarchical.py [--quick]``. The target: 10,000 x 128 within 1.5 times
scipy's linkage, timed in the same run. ``after`` is what the partition adds to the linkage.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import pdist

from ksame.partition import PartitionQuality, hierarchical, partition_quality


def main(quick: bool) -> list[dict[str, Any]]:
    """Return one row per measurement."""
    n = 2_000 if quick else 10_000
    x = sample(n, 128)
    linkages = ("ward", "single", "complete", "average")
    return [race(x, 10, linkage) for linkage in linkages] + [judged(x, 10)]


def sample(n: int, d: int) -> np.ndarray:
    """Return codes whose variance falls with the component, as that of face codes does."""
    return np.random.default_rng(0).standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))


def race(x: np.ndarray, k: int, linkage: str) -> dict[str, Any]:
    """Time the partition and the linkage alone."""
    alone, _, tree_mb = alone_in_a_process(lambda: scipy_linkage(pdist(x), linkage)[-1, 2])
    seconds, _, peak = alone_in_a_process(lambda: len(hierarchical(x, k, linkage=linkage)))
    return {
        "what": f"hierarchical, {linkage}, against its linkage",
        "n": len(x),
        "d": x.shape[1],
        "k": k,
        "seconds": round(seconds, 3),
        "twin_seconds": round(alone, 3),
        "ratio": round(seconds / alone, 3),
        "peak_mb": round(peak),
        "twin_peak_mb": round(tree_mb),
    }


def judged(x: np.ndarray, k: int) -> dict[str, Any]:
    """Time the judges."""
    groups = hierarchical(x, k)
    seconds, found, peak = alone_in_a_process(lambda: partition_quality(x, groups))
    assert isinstance(found, PartitionQuality)
    return {
        "what": "judge, of hierarchical ward",
        "n": len(x),
        "d": x.shape[1],
        "k": k,
        "seconds": round(seconds, 3),
        "peak_mb": round(peak),
        "silhouette": round(found.silhouette, 4),
    }


def alone_in_a_process(work: Callable[[], Any]) -> tuple[float, Any, float]:
    """Return seconds, the result and the megabytes that a forked process took on top of its start."""
    receive, send = multiprocessing.Pipe(duplex=False)

    def measured() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        send.send((seconds, result, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))

    process = multiprocessing.get_context("fork").Process(target=measured)
    process.start()
    answer: tuple[float, Any, float] = receive.recv()
    process.join()
    return answer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for row in main(parser.parse_args().quick):
        print("  ".join(f"{key}={value}" for key, value in row.items()))
