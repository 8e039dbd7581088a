"""Equal-size k-means against the package k-means-constrained (min-cost flow), and at 50,000 people.

Run ``python benchmarks/bench_kmeans.py [--quick]``; k-means-constrained is in the extra ``bench``.
``loss`` is how far our total within-group squares are above the other's: below zero, ours are
better. ``flow_gain`` is what Lloyd's steps with an exact, min-cost assignment, started from our
result, still take off it.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from k_means_constrained import KMeansConstrained
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from ksame.partition import kmeans


def main(quick: bool) -> list[dict[str, Any]]:
    """Return one row per measurement."""
    n = 500 if quick else 2_000
    rows = [race(kind, n, 128, k) for kind in ("falling variance", "noise") for k in (3, 5, 10, 20)]
    rows += [against_optimum(n, 2, k, 20 if quick else 100) for n, k in ((9, 3), (10, 2), (11, 4))]
    rows += [large(n, 128, 10) for n in ([5_000] if quick else [5_000, 50_000])]
    return rows


def sample(kind: str, n: int, d: int) -> np.ndarray:
    """Return codes whose variance falls with the component, as that of face codes does, or is equal."""
    x = np.random.default_rng(0).standard_normal((n, d))
    return x if kind == "noise" else x / np.sqrt(np.arange(1, d + 1))


def squares(x: np.ndarray, labels: np.ndarray) -> float:
    """Return the total within-group squares."""
    groups = [x[labels == group] for group in range(labels.max() + 1)]
    return float(sum(((group - group.mean(axis=0)) ** 2).sum() for group in groups))


def race(kind: str, n: int, d: int, k: int, runs: int = 3) -> dict[str, Any]:
    """Time both with the same sizes, one start each, by turns, on one core; squares are means."""
    x, m = sample(kind, n, d), n // k
    ours, theirs = [], []
    for seed in range(runs):
        peer = KMeansConstrained(m, size_min=n // m, size_max=-(-n // m), n_init=1, random_state=seed)
        with threadpool_limits(1):  # threads that wait for each other on a busy machine would hurt the peer
            ours.append(timed(lambda seed=seed: kmeans(x, k, rng=seed).labels))
            theirs.append(timed(lambda peer=peer: peer.fit_predict(x)))
    found = np.mean([squares(x, labels) for _, labels in ours])
    peers = np.mean([squares(x, labels) for _, labels in theirs])
    seconds, twin_seconds = (float(np.median([s for s, _ in times])) for times in (ours, theirs))
    return {
        "what": f"kmeans, {kind}, against k-means-constrained",
        "n": n,
        "d": d,
        "k": k,
        "seconds": round(seconds, 3),
        "twin_seconds": round(twin_seconds, 3),
        "ratio": round(seconds / twin_seconds, 3),
        "loss": round(float(found / peers - 1), 4),
        "flow_gain": round(1 - squares(x, lloyd(x, ours[0][1])) / squares(x, ours[0][1]), 5),
    }


def lloyd(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Go on with Lloyd's steps whose assignment is the cheapest that keeps the sizes; return the labels."""
    while True:
        sizes = np.bincount(labels)
        centroids = np.stack([x[labels == group].mean(axis=0) for group in range(len(sizes))])
        places = np.repeat(np.arange(len(sizes)), sizes)
        after = places[linear_sum_assignment(cdist(x, centroids, "sqeuclidean")[:, places])[1]]
        if squares(x, after) >= squares(x, labels) * (1 - 1e-9):
            return labels
        labels = after


def against_optimum(n: int, d: int, k: int, sets: int) -> dict[str, Any]:
    """Compare with the best of all partitions of small sets."""
    rng = np.random.default_rng(0)
    losses = []
    for seed in range(sets):
        x = rng.standard_normal((n, d))
        groups = kmeans(x, k, rng=seed)
        losses.append(squares(x, groups.labels) / least(x, tuple(range(n)), sorted(groups.sizes)) - 1)
    return {
        "what": f"kmeans against the true optimum, {sets} sets",
        "n": n,
        "d": d,
        "k": k,
        "loss": round(float(np.mean(losses)), 4),
        "worst_loss": round(max(losses), 4),
    }


def least(x: np.ndarray, rows: tuple[int, ...], sizes: list[int]) -> float:
    """Return the least total squares of any partition of rows into groups of these sizes."""
    if len(sizes) == 1:
        return squares(x[list(rows)], np.zeros(len(rows), dtype=int))
    best = np.inf
    for size in set(sizes):
        rest = list(sizes)
        rest.remove(size)
        for others in itertools.combinations(rows[1:], size - 1):
            group = (rows[0], *others)
            left = tuple(row for row in rows if row not in group)
            cost = squares(x[list(group)], np.zeros(size, dtype=int))
            best = min(best, cost + least(x, left, rest))
    return float(best)


def large(n: int, d: int, k: int) -> dict[str, Any]:
    """Measure time and memory of a set whose (n, m) distances do not fit into memory."""
    x = sample("falling variance", n, d).astype(np.float32)
    seconds, _, peak = alone_in_a_process(lambda: len(kmeans(x, k, rng=0)))
    return {
        "what": "kmeans, falling variance, float32",
        "n": n,
        "d": d,
        "k": k,
        "seconds": round(seconds, 3),
        "peak_mb": round(peak),
        "codes_mb": round(x.nbytes / 2**20),
    }


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return seconds and the result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def alone_in_a_process(work: Callable[[], Any]) -> tuple[float, Any, float]:
    """Return seconds, the result and the megabytes that a forked process took on top of its start."""
    receive, send = multiprocessing.Pipe(duplex=False)

    def measured() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, result = timed(work)
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
