"""Run ``main(quick)`` of every bench_*.py here, print one table and write results.json."""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows with different keys as one aligned text table."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns] + [[shown(row.get(column)) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def shown(value: object) -> str:
    """Return a value as short as it can be read."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Run the benchmarks that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of file names, such as mdav; all by default")
    parser.add_argument("--full", action="store_true", help="the large sizes too")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for path in sorted(HERE.glob("bench_*.py")):
        if not options.names or any(name in path.stem for name in options.names):
            print(f"{path.stem} ...", flush=True)
            rows += import_module(f"benchmarks.{path.stem}").main(quick=not options.full)
    print(table(rows))
    machine = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }
    results = {"quick": not options.full, "machine": machine, "rows": rows}
    (HERE / "results.json").write_text(json.dumps(results, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
