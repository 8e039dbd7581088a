"""The options of ``ksame run`` from the fields of methods, outputs and media: nothing is listed twice."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from ksame.core.options import Options, flag_of
from ksame.methods import AD_HOC, METHODS
from ksame.pipeline.photos import OUTPUTS, Photos
from ksame.pipeline.videos import Videos

__all__ = ["GroupedCommand", "with_generated_options"]


class _Entry(NamedTuple):
    """An option of the command line: a field, and who has it."""

    field: Field[Any]
    kind: Any
    owners: list[str]
    defaults: dict[Any, list[str]]  # and who has each


def with_generated_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for every field to the signature of a command that takes ``**options``."""
    signature = inspect.signature(command, eval_str=True)
    fixed = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    made = [_parameter(name, entry) for name, entry in _entries().items()]
    keyword_only = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*fixed, *made)]
    command.__signature__ = signature.replace(parameters=keyword_only)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in keyword_only} | {"return": None}
    return command


class GroupedCommand(TyperCommand):
    """A command whose help groups the options by who has them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = getattr(parameter, "rich_help_panel", None) or "Options"
                groups.setdefault(str(group), []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _entries() -> dict[str, _Entry]:
    """Return every option by name, with the names of those who have it."""
    entries: dict[str, _Entry] = {}
    for owner, options in _owners():
        for field in options.option_fields():
            entry = entries.setdefault(field.name, _Entry(field, options.type_of(field), [], {}))
            if owner not in entry.owners:
                entry.owners.append(owner)
                entry.defaults.setdefault(field.default, []).append(owner)
    return entries


def _owners() -> list[tuple[str, type[Options]]]:
    """Return who has options, by the name that the help gives them."""
    methods = [("ad hoc methods" if name in AD_HOC else name, type(one)) for name, one in METHODS.items()]
    outputs = [(f"--publish {name}", one) for name, one in OUTPUTS.items()]
    return [*methods, *outputs, ("photos", Photos), ("videos", Videos)]


def _parameter(name: str, entry: _Entry) -> inspect.Parameter:
    """Return an option as a parameter that typer reads; None: it was not given."""
    about = entry.field.metadata["about"].rstrip(".")
    first, *others = entry.defaults
    told = [first, *(f"{other} for {', '.join(entry.defaults[other])}" for other in others)]
    shown = f" [{'; '.join(map(str, told))}]" if isinstance(first, int | str) and first is not False else ""
    choices = entry.field.metadata["choices"]
    listed = f": {', '.join(choices)}" if choices is not None else ""
    option = typer.Option(
        flag_of(name),
        help=f"{about}{listed}{shown}.",
        show_default=False,
        rich_help_panel=f"Options of {', '.join(entry.owners)}",
    )
    annotation: Any = Annotated[Optional[_parsed_type(entry.kind)], option]  # noqa: UP045  # it is a value
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _parsed_type(kind: Any) -> Any:
    """Return the type that typer parses for the type of a field."""
    parts = [part for part in get_args(kind) if part is not NoneType]
    if get_origin(kind) in (Union, UnionType):
        return str if str in parts else Path if Path in parts else _parsed_type(parts[0])
    if get_origin(kind) is Literal:
        return kind
    return list[Path] if get_origin(kind) is not None else kind
