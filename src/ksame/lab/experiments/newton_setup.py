"""Everybody twice, seen through one window: what the experiments of Newton et al. share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.attack.recognisers import Recogniser
from ksame.lab.experiments.base import ExperimentData
from ksame.lab.experiments.face_images import (
    UInt8Images,
    Window,
    attackers,
    cmc_percent,
    eigenfaces,
)
from ksame.methods.obscure import draw_synthetic_faces

SEED = 2003
FACE_WIDTH_PX = 99.0  # width of a face: the paper's images are 99 px wide [N 5.1]
SAME_PHOTO, OTHER_PHOTO = "same photo", "other photo"


class NewtonSetup(NamedTuple):
    """Everybody twice, seen through one window, and what eigenfaces and networks know of the originals."""

    window: Window
    photos: Mapping[str, UInt8Images]  # the neutral photo is the one that is altered, the other its other
    subjects: NDArray[Any]
    networks: Sequence[Recogniser]

    @classmethod
    def of(cls, data: ExperimentData) -> NewtonSetup:
        """Cut the faces in grey, as FERET has them."""
        window = Window.of(data, across=FACE_WIDTH_PX)
        some = {SAME_PHOTO: data.only("neutral"), OTHER_PHOTO: data.only("smiling")}
        photos = {name: window.cut(each.faces.rgb, grey=True) for name, each in some.items()}
        return cls(window, photos, some[SAME_PHOTO].faces.subject, attackers())

    def by_pixels(self, gallery: UInt8Images, probes: UInt8Images) -> float:
        """Return rank-1 of eigenfaces, trained on the gallery as it is, altered or not [N 5.2]."""
        known, unknown = self.window.pixels(gallery), self.window.pixels(probes)
        return float(cmc_percent(eigenfaces(known), known, unknown, self.subjects)[0])

    def seen(self, images: UInt8Images) -> list[NDArray[Any]]:
        """Return each network's embeddings of images."""
        return [self.window.codes(who, images) for who in self.networks]

    def by_networks(
        self, gallery: list[NDArray[Any]], probes: list[NDArray[Any]]
    ) -> Iterator[tuple[str, float]]:
        """Yield each network's name and rank-1."""
        for who, known, unknown in zip(self.networks, gallery, probes, strict=True):
            yield who.name, float(cmc_percent(who.train, known, unknown, self.subjects)[0])

    def altered(self, which: str, method: str, strength: float | None = None) -> UInt8Images:
        """Return everybody's photo altered; Mr Potato has other parts for each photo."""
        photos = self.photos[which]
        if method != "potato":
            return self.window.altered(photos, method, strength=strength, seeds=SEED)
        seeds = np.arange(len(photos)) + (0 if which == SAME_PHOTO else len(photos))
        donors = draw_synthetic_faces(SEED)
        return self.window.altered(photos, method, seeds=seeds.tolist(), donors=donors, grey=True)
