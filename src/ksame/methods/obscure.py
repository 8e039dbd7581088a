"""The ad hoc methods as methods of a run: they are there to be measured against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.analysis.identify import IdentifiedPhotos
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.context import Context
from ksame.core.geometry import FRAME, replaced_boxes
from ksame.core.options import option
from ksame.methods.base import Method, Plan, Publish
from ksame.render.base import Rendered
from ksame.render.obscure import METHODS, NO_GUARANTEE, obscure
from ksame.spaces.appearance import AppearanceSpace

__all__ = ["Obscure", "draw_synthetic_faces"]

DONORS = 12  # synthetic faces that lend eyes, noses and mouths
DONOR_DEVIATION_SHARE = 0.7  # of the model's standard deviations: beyond, faces look odd


@dataclass(frozen=True, kw_only=True)
class Obscure(Method[IdentifiedPhotos]):
    """An ad hoc method [N 5.3, S 2.2]: whoever does the same to other photos recognises the people."""

    promise: ClassVar[str] = "nothing: recognition is not bounded. Needs --accept-no-guarantee."
    speed: ClassVar[str] = "about 11 photos per second on 2 cores"
    outputs: ClassVar[tuple[Publish, ...]] = ("scene",)
    registered_scale: ClassVar[float | None] = 0.5  # the photos themselves are drawn on
    uses_subjects: ClassVar[bool] = False  # nobody shares anything

    name: str  # type: ignore[misc]  # one class for all of them
    grey: bool = option(False, "Take the colour out of the faces.")
    strength: float | None = option(None, "How strong it is; ksame methods says what that means.")

    def __post_init__(self) -> None:
        """Refuse a strength that the method has not."""
        super().__post_init__()
        METHODS[self.name].amount(self.strength)

    def describe_strength(self) -> str:
        """Say what the strength is of this method; nothing where it has none."""
        how = METHODS[self.name]
        if how.default is None:
            return ""
        return f"{how.strength} [{how.default:g}], {how.low:g} to {how.high:g}"

    def plan(self, people: IdentifiedPhotos, context: Context) -> Plan:
        """Give every face an identity of its own: nobody shares anything."""
        donors = draw_synthetic_faces(context.seed) if self.name == "potato" else None
        renderer = ObscureRenderer(self, people.faces.points, context.seed, donors)
        return Plan(np.arange(len(people.faces)), renderer, NO_GUARANTEE)


@dataclass(frozen=True, eq=False)
class ObscureRenderer:
    """Obscures faces in their photo."""

    method: Obscure
    points: FloatArray  # (n, 468, 2)
    seed: int  # noise is on the same positions of every face [N 5.3]
    donors: NDArray[np.uint8] | None

    def render(self, image: NDArray[np.uint8], faces: IntArray) -> Rendered:
        """Obscure the faces one after the other."""
        how = self.method
        for face in faces[::-1].tolist():
            image = obscure(
                image, self.points[face : face + 1], how.name, grey=how.grey, strength=how.strength,
                rng=self.seed, donors=self.donors,
            )  # fmt: skip
        return Rendered(image, replaced_boxes(self.points[faces]))


def draw_synthetic_faces(seed: int, *, count: int = DONORS) -> NDArray[np.uint8]:
    """Return synthetic faces (count, h, w, 3) on the canonical frame, drawn by the appearance model."""
    model = AppearanceSpace.bundled()
    codes = np.random.default_rng(seed).normal(size=(count, len(model.deviation)))
    codes = np.where(model.nuisance, 0, codes * model.deviation * DONOR_DEVIATION_SHARE)
    size = (FRAME.width, FRAME.height)
    return np.stack([cv2.resize(face, size, interpolation=cv2.INTER_AREA) for face in model.decode(codes)])
