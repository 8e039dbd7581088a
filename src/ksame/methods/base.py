"""What a method is: a frozen dataclass whose fields are its options, and which plans a release.

A new method is a subclass of ``Method`` in a file of its own and one line of ``ksame.methods.METHODS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import IntArray
from ksame.core.context import Context
from ksame.core.guarantee import Guarantee
from ksame.core.options import Options, option
from ksame.core.partition_type import as_k
from ksame.render.base import PortraitRenderer, SceneRenderer

__all__ = ["GroupMethod", "Method", "Plan", "Publish"]

Publish = Literal["portrait", "scene"]
People = TypeVar("People")
"""What is planned for: ``IdentifiedPhotos``, or ``IdentifiedVideos`` for a method that serves videos."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The identity of each face, who draws it, and what is true of the result.

    Parameters
    ----------
    identity : (n,) int
        The surrogate of each face (photos) or person's track (videos): who has the same one shares a group.
    renderer : PortraitRenderer or SceneRenderer
        Draws the identities.
    guarantee : Guarantee
        What holds for the surrogates; publishing can only lower it.
    public : mapping
        What else the certificate says. No names, no paths.
    private : mapping
        What else the private folder says.
    notes : tuple of str
        Sentences for the user.
    networks : tuple of str
        Weights that were used.
    allow_several : bool
        Whether a person may have several identities, behind which stand exactly the same people.
    """

    identity: IntArray
    renderer: PortraitRenderer | SceneRenderer
    guarantee: Guarantee
    public: Mapping[str, Any] = field(default_factory=dict)
    private: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    allow_several: bool = False


@dataclass(frozen=True, kw_only=True)
class Method(Options, ABC, Generic[People]):
    """A way to de-identify faces; its fields are its options."""

    name: ClassVar[str]
    """What it is called on the command line."""
    promise: ClassVar[str]
    """What it promises, in one sentence."""
    speed: ClassVar[str]
    """How fast it is, in words."""
    licence: ClassVar[str] = "free for commercial use"
    """Whether the bundled models that it uses may be used commercially."""
    outputs: ClassVar[tuple[Publish, ...]] = ("portrait", "scene")
    """What it can publish; the first is the default."""
    k: ClassVar[int] = 1
    """How many people share a new face; 1 where the method groups nobody."""
    select: ClassVar[str | None] = None
    """The label whose values are kept apart, if any."""
    media: ClassVar[tuple[str, ...]] = ("photos",)
    """What it can work on: photos, videos."""
    registered_scale: ClassVar[float | None] = None
    """Size of registered faces relative to the canonical frame; None: that of the photos."""
    scene_assumption: ClassVar[str | None] = None
    """What a scene still shows of a person, whatever the method does to the face."""
    uses_subjects: ClassVar[bool] = True
    """Whether it matters who is the same person; if not, every face counts as a person."""
    uses_verifiers: ClassVar[bool] = False
    """Whether recognisers judge candidates for the new faces."""

    def networks(self, context: Context) -> tuple[str, ...]:
        """Return the weights that the method needs: a run that lacks one fails before it begins."""
        return ()

    @abstractmethod
    def plan(self, people: People, context: Context) -> Plan:
        """Return the identity of every face, and who draws it."""


@dataclass(frozen=True, kw_only=True)
class GroupMethod(Method[IdentifiedPhotos]):
    """A method that groups at least k people, apart by a label if that is asked for."""

    k: int = option(5, "People behind every published face.")  # type: ignore[misc]
    select: str | None = option(  # type: ignore[misc]
        None, "A csv column, or predicted gender, age or expression, whose values are kept apart [G5 4.2]."
    )

    def __post_init__(self) -> None:
        """Refuse a k that protects nobody."""
        as_k(self.k)
        super().__post_init__()
