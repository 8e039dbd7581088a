"""Options as the fields of frozen dataclasses: each has a default, a sentence and, where fixed, choices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import Field, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

from ksame.core.errors import UsageError

__all__ = ["Options", "flag_of", "option", "route_options"]


def option(
    default: Any,
    about: str,
    *,
    choices: Collection[str] | None = None,
    or_path: Collection[str] | None = None,
    only: str | None = None,
) -> Any:
    """Return a dataclass field that is an option.

    Parameters
    ----------
    default : object
        Its value where nothing is asked for.
    about : str
        A sentence for the help.
    choices : collection of str, optional
        Its possible values, where they are a registry; those of a ``Literal`` are known.
    or_path : collection of str, optional
        The words that it may be; anything else is a path, which no certificate shows.
    only : str, optional
        What alone it has an effect on: portraits, scenes, photos or videos.
    """
    metadata = {"about": about, "choices": choices, "or_path": or_path, "only": only}
    return field(default=default, metadata=metadata)


def flag_of(name: str) -> str:
    """Return how an option is given on the command line.

    >>> flag_of("k"), flag_of("allow_residual")
    ('-k', '--allow-residual')
    """
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


class Options:
    """A frozen dataclass whose fields made by ``option`` are checked at birth."""

    def __post_init__(self) -> None:
        """Refuse a value that is none of a field's choices."""
        for one in self.option_fields():
            value, choices = getattr(self, one.name), self.choices(one)
            if choices is not None and value not in (*choices, one.default):
                raise UsageError(
                    f"There is no {one.name.replace('_', ' ')} {value!r}: choose one of {', '.join(choices)}."
                )

    def check(self, made: Collection[str]) -> None:
        """Refuse, before any work, paths that lead nowhere, and options without effect on what is made."""
        for one in self.option_fields():
            flag, value = flag_of(one.name), getattr(self, one.name)
            only = one.metadata["only"]
            if only is not None and only not in made and value != one.default:
                raise UsageError(f"{flag} has an effect on {only} only: leave it out.")
            for path in _paths(value, one.metadata["or_path"]):
                if not path.exists():
                    raise UsageError(f"{flag}: there is no file or folder {str(path)!r}.")

    @classmethod
    def option_fields(cls) -> Iterator[Field[Any]]:
        """Yield the fields that are options."""
        return (one for one in fields(cls) if "about" in one.metadata)  # type: ignore[arg-type]

    @classmethod
    def choices(cls, one: Field[Any]) -> Collection[str] | None:
        """Return the possible values of a field, or None where any is possible."""
        if one.metadata["choices"] is not None:
            choices: Collection[str] = one.metadata["choices"]
            return choices
        kind = cls.type_of(one)
        inner = [part for part in get_args(kind) or (kind,) if get_origin(part) is Literal] or [kind]
        return get_args(inner[0]) if get_origin(inner[0]) is Literal else None

    @classmethod
    def type_of(cls, one: Field[Any]) -> Any:
        """Return the type of a field."""
        return get_type_hints(cls)[one.name]

    def with_options(self, given: Mapping[str, Any]) -> Self:
        """Return a copy with some options changed."""
        return replace(self, **given)  # type: ignore[type-var]

    def settings(self, *, public: bool = False) -> dict[str, Any]:
        """Return the options by name; in public a path, which may name people, is ``custom``."""
        given = {}
        for one in self.option_fields():
            value = getattr(self, one.name)
            secret = public and _paths(value, one.metadata["or_path"])
            given[one.name] = "custom" if secret else _plain(value)
        return given


def _paths(value: Any, words: Collection[str] | None) -> list[Path]:
    """Return the paths in the value of an option; ``words`` are none, and without them nothing is."""
    if words is None or value is None:
        return []
    values = [value] if isinstance(value, str | Path) else value
    return [Path(one) for one in values if str(one) not in words]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Path):
        return str(value)
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def route_options(
    given: Mapping[str, Any], owners: Mapping[str, Options], made: Collection[str], chosen: str
) -> dict[str, Options]:
    """Return the owners with the options given, each changed by its own; refuse an option that none owns.

    Parameters
    ----------
    given : mapping
        Options by name.
    owners : mapping of str to Options
        The method, output and media of a run, by role.
    made : collection of str
        What is made of what, on which options must have an effect: see ``Options.check``.
    chosen : str
        What was chosen, for the message.
    """
    for name in given:
        if not any(name in {one.name for one in owner.option_fields()} for owner in owners.values()):
            raise UsageError(f"{chosen} has no option {flag_of(name)}: leave it out.")
    routed = {}
    for role, owner in owners.items():
        own = {one.name for one in owner.option_fields()}
        routed[role] = owner.with_options({name: value for name, value in given.items() if name in own})
        routed[role].check(made)
    return routed
