"""MDAV against a plain numpy version of itself: seconds side by side, and memory in a fresh process.

Run ``python benchmarks/bench_mdav.py [--quick]``. The targets: at most a quarter of the plain
version's time for 20,000 x 128 with k = 10, and 100,000 x 128 in under two minutes with less than
three times the memory of the codes (the codes themselves counted).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ksame.partition import mdav


def main(quick: bool) -> list[dict[str, Any]]:
    """Return one row per measurement."""
    sizes = [2_000, 5_000] if quick else [2_000, 5_000, 20_000]
    large = 20_000 if quick else 100_000
    rows = [race(kind, n, 128, 10) for n in sizes for kind in ("normal", "clusters")]
    rows += [fresh(large, 128, 10, dtype) for dtype in ("float64", "float32")]
    return rows


def race(kind: str, n: int, d: int, k: int) -> dict[str, Any]:
    """Time both versions in the same run and check that they agree."""
    x = sample(kind, n, d)
    mdav(x[:1000], k)  # the first call starts the threads of the BLAS
    seconds, groups = timed(mdav, x, k)
    twin_seconds, labels = timed(plain, x, k)
    pairs = len(np.unique(np.stack([groups.labels, labels]), axis=1).T)
    return {
        "what": f"mdav, {kind}",
        "n": n,
        "d": d,
        "k": k,
        "seconds": round(seconds, 3),
        "twin_seconds": round(twin_seconds, 3),
        "ratio": round(seconds / twin_seconds, 4),
        "same_groups": pairs == len(groups) == len(np.unique(labels)),
    }


def fresh(n: int, d: int, k: int, dtype: str) -> dict[str, Any]:
    """Measure seconds and peak memory in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--measure", str(n), str(d), str(k), dtype],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def measure(n: int, d: int, k: int, dtype: str) -> dict[str, Any]:
    """Return seconds, and how far memory rose above the imports: the codes and all that MDAV needs."""
    mdav(sample("normal", 500, d), k)  # libraries loaded, threads started
    before = peak_mb()
    x = np.empty((n, d), dtype=dtype)
    for start in range(0, n, 1000):  # by blocks: making the codes must not be the peak
        x[start : start + 1000] = sample("normal", min(1000, n - start), d, seed=start)
    seconds, _ = timed(mdav, x, k)
    peak, data = peak_mb() - before, x.nbytes / 1e6
    return {
        "what": f"mdav, {dtype}, own process",
        "n": n,
        "d": d,
        "k": k,
        "seconds": round(seconds, 3),
        "data_mb": round(data, 1),
        "peak_mb": round(peak, 1),
        "peak_over_data": round(peak / data, 2),
    }


def plain(x: np.ndarray, k: int) -> np.ndarray:
    """MDAV-generic [S alg. 2] as one would write it at first: every step scans all rows left."""
    labels = np.zeros(len(x), dtype=int)
    left, group = np.arange(len(x)), 0

    def farthest(point: np.ndarray) -> int:
        return int(left[((x[left] - point) ** 2).sum(1).argmax()])

    def take(row: int) -> None:
        nonlocal left, group
        near = np.argsort(((x[left] - x[row]) ** 2).sum(1), kind="stable")[:k]
        group += 1
        labels[left[near]] = group
        left = np.delete(left, near)

    while len(left) >= 2 * k:
        r, pair = farthest(x[left].mean(axis=0)), len(left) >= 3 * k
        take(r)
        if pair:
            take(farthest(x[r]))
    return labels


def sample(kind: str, n: int, d: int, seed: int = 0) -> np.ndarray:
    """Return codes: one normal cloud, or clusters of people who look alike."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x if kind == "normal" else 0.3 * x + 3 * rng.standard_normal((50, d))[rng.integers(0, 50, n)]


def timed(run: Any, *args: Any) -> tuple[float, Any]:
    """Return the seconds and the result."""
    start = time.perf_counter()
    result = run(*args)
    return time.perf_counter() - start, result


def peak_mb() -> float:
    """Return the largest memory this process has had, in MB; Linux only.

    Not getrusage: a child starts there with the peak of its parent.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text columns."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns] + [[str(row.get(column, "")) for column in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--measure", nargs=4, metavar=("N", "D", "K", "DTYPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        n, d, k, dtype = options.measure
        print(json.dumps(measure(int(n), int(d), int(k), dtype)))
    else:
        print(table(main(options.quick)))
