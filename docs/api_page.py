"""Write the page of the Python reference: what each public module exports."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

# What users and extensions import; every name in a module's __all__ gets a page of its own.
MODULES = (
    "ksame",
    "ksame.partition",
    "ksame.replace",
    "ksame.attack",
)


def write_api_page(path: Path) -> None:
    """Write the page; an unchanged page keeps its file time, so that a build does not repeat work."""
    head = "Python\n======\n\nGenerated from the docstrings when these pages are built.\n"
    text = "\n".join([head, *sections()])
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def sections() -> Iterator[str]:
    """Yield a section with a summary table for each public module."""
    listed: set[int] = set()
    for name in MODULES:
        module = import_module(name)
        yield f"{name}\n{'-' * len(name)}\n\n{summary(module)}\n\n.. currentmodule:: {name}\n"
        rows = [f"   {item}" for item in exported(module, listed)]
        yield "\n".join([".. autosummary::", "   :toctree: generated", "   :nosignatures:", "", *rows]) + "\n"


def summary(module: ModuleType) -> str:
    """Return the first sentence of a module's docstring."""
    return (module.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()


def exported(module: ModuleType, listed: set[int]) -> Iterator[str]:
    """Yield the functions and classes that a module exports and no module before it did."""
    for name in getattr(module, "__all__", ()):
        item = getattr(module, name)
        if inspect.ismodule(item) and callable(item):  # a package that is called as the function in it
            name, item = f"{name}.run.{name}", getattr(import_module(f"{item.__name__}.run"), name)
        if not (inspect.isclass(item) or inspect.isfunction(item)) or id(item) in listed:
            continue
        listed.add(id(item))
        yield name


if __name__ == "__main__":
    write_api_page(Path(__file__).parent / "reference" / "api.rst")
