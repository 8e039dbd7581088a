"""Build a pool of synthetic identities from portraits drawn by a generator [S 7.3, 8.3.4]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.methods.anonfaces.measure import measure_portraits
from ksame.methods.anonfaces.method import AnonFaces
from ksame.methods.anonfaces.targets import SURE_MALE_LOGIT, SURE_NEUTRAL_LOGIT
from ksame.methods.anonfaces.verifiers import embed_registered
from ksame.methods.shift.pool import Pool, skin_texture
from ksame.models import weights
from ksame.models.generator import ImageGenerator
from ksame.models.landmarks import refine_landmarks
from ksame.models.recognisers import RECOGNISERS
from ksame.spaces import AppearanceSpace
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

__all__ = ["draw_synthetic_people"]

VERIFIERS = ("sface", "mobilefacenet")  # both of which must take all portraits for different people
POOL_LICENCE = "The new faces were drawn by MobileStyleGAN, distilled from StyleGAN2: not for commercial use."
_BATCH = 16  # portraits drawn at a time
_TRUNCATION = 0.8  # of the distance to the mean style: lower, faces look alike; higher, hair covers the face
_STYLES_PER_TARGET = 96  # random styles from which the nearest to a target is chosen
# Years, and L* of the skin: darker images more often show light skin in low light than dark skin
_TARGET_RANGES = {"age": (18.0, 68.0), "light": (42.0, 76.0)}
_MAX_YAW_PX = 8.0  # px of the canonical frame, for a frontal face
_MIN_AGE_YEARS = 16.0
_ACCESSORY_MAX = -0.5  # target of glasses and hats, in standard deviations
_SAME_PERSON_SHARE = 0.85  # of a recogniser's threshold for one person
_WEBP_QUALITY = 82  # of the stored images: 6 kB each
_PORTRAITS_PER_IDENTITY = 60  # limit of portraits drawn per identity; about a tenth are usable


def draw_synthetic_people(
    size: int,
    *,
    generator: str | Path = "bundled",
    model: str | Path = "bundled",
    space: AppearanceSpace | None = None,
    seed: RandomState = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Draw neutral, frontal portraits of different identities and build a pool of their faces.

    Deviation: [S 7.3] adds the difference between two faces of a pool and draws it with the appearance
    model. These faces are used as drawn, including their skin: they are synthetic already.

    Parameters
    ----------
    size : int
        Number of identities. One or two of ten portraits are usable; each takes half a second.
    generator, model : str or path
        ``bundled``, or the folder of a generator and the map learnt from it.
    space : AppearanceSpace, optional
        The model that draws videos; by default the bundled one.
    seed, progress
        See ``ksame.methods.shift.pool.build``.

    Raises
    ------
    CannotGuarantee
        If the generator does not draw enough different faces.
    """
    if size < 2:
        raise UsageError(f"A pool needs at least 2 identities. Got {size}.")
    guide, draws = AnonFaces(generator=generator, generator_map=model).load()
    weights.fetch(["landmarker"])
    space = space or AppearanceSpace.bundled()
    sampler = _IdentitySampler(guide, draws, space, np.random.default_rng(seed))
    found: list[_SyntheticPerson] = []
    for _ in range(0, size * _PORTRAITS_PER_IDENTITY, _BATCH):
        found += sampler.sample()
        if progress:
            progress("drawing faces", min(len(found), size), size)
        if len(found) >= size:
            return _make_pool(found[:size], space, POOL_LICENCE if str(generator) == "bundled" else "")
    raise CannotGuarantee(
        f"The generator produced too few distinct faces for a pool of {size}: request a smaller one."
    )


class _SyntheticPerson(NamedTuple):
    """A synthetic identity."""

    code: FloatArray  # (d,) of the appearance model
    label: FloatArray  # (3,)
    image: bytes


def _make_pool(found: list[_SyntheticPerson], space: AppearanceSpace, licence: str) -> Pool:
    codes = np.stack([one.code for one in found])
    labels = np.stack([one.label for one in found])
    images = tuple(one.image for one in found)
    pool = Pool(codes, codes.copy(), labels, 1, space.digest, _comparison_note(), images, licence)
    return pool.with_embeddings([name for name in RECOGNISERS if weights.cached(name)], space.shape)


@dataclass(eq=False)
class _IdentitySampler:
    """Sample identities that differ from all accepted before."""

    guide: GeneratorSpace
    draws: ImageGenerator
    space: AppearanceSpace
    rng: np.random.Generator
    accepted: dict[str, FloatArray] = field(default_factory=dict)  # their embeddings by verifier

    def sample(self) -> list[_SyntheticPerson]:
        """Draw a batch of portraits and return the new identities."""
        portraits = self.guide.draw(self._codes(_BATCH), self.draws, half=True)
        seen = measure_portraits(portraits, self.guide)
        good, images = [], []
        for row in np.flatnonzero(_is_usable(seen.attributes)).tolist():
            portrait = portraits[seen.rows[row]]
            mesh = refine_landmarks(portrait, seen.faces.points[row])
            face = skin_texture.extract_skin_texture(portrait, mesh, self.space)
            if skin_texture.is_neutral(mesh) and skin_texture.is_clean_skin(face, self.space):
                good.append(row)
                images.append(face)
        new = self._accept_new(embed_registered(seen.faces[good], VERIFIERS)) if good else []
        some = [good[row] for row in new]
        if not some:
            return []
        codes = np.where(self.space.nuisance, 0.0, self.space.encode(seen.faces[some]))  # [S 7.3.2]
        stored = [_encode_image(images[row]) for row in new]
        return list(map(_SyntheticPerson, codes, _condition_labels(seen.attributes[some]), stored))

    def _codes(self, n: int) -> FloatArray:
        """Return random frontal codes (n, d), uniform over gender, age and skin [S 8.3.4].

        For each target the nearest of some random styles is changed to meet it: styles that are changed far
        resemble each other, and finally do not show a face.
        """
        styles = self.draws.styles(self.rng.standard_normal((n * _STYLES_PER_TARGET, self.draws.noise)))
        random = self.guide.mean + _TRUNCATION * (np.tile(styles, 2) - self.guide.mean)
        codes = []
        for some in np.split(random, n):
            target, to = self._draw_target(), self.guide.predict_attributes(some)
            to[:, [ATTRIBUTES.index(name) for name in target]] = list(target.values())
            codes.append(
                self.guide.set_attributes(some[self.guide.attribute_cost(some, to).argmin()], target)
            )
        return np.stack(codes)

    def _draw_target(self) -> Mapping[str, float]:
        bare = dict(zip(ATTRIBUTES, self.guide.level + _ACCESSORY_MAX * self.guide.unit, strict=True))
        even = {name: self.rng.uniform(*span) for name, span in _TARGET_RANGES.items()}
        gender = SURE_MALE_LOGIT if self.rng.random() < 0.5 else -SURE_MALE_LOGIT
        return even | {
            "gender": gender, "smile": SURE_NEUTRAL_LOGIT, "yaw": 0.0, "glasses": bare["glasses"],
            "hat": bare["hat"],
        }  # fmt: skip

    def _accept_new(self, codes: Mapping[str, FloatArray]) -> list[int]:
        """Accept rows that no verifier matches to an identity accepted before; return them."""
        rows = []
        for row in range(len(codes[VERIFIERS[0]])):
            one = {name: code[row] for name, code in codes.items()}
            if all(
                _nearest_distance(self.accepted.get(name), code) > _same_identity_distance(name)
                for name, code in one.items()
            ):
                rows.append(row)
                before = self.accepted
                self.accepted = {
                    name: code[None] if name not in before else np.vstack([before[name], code])
                    for name, code in one.items()
                }
        return rows


def _is_usable(attributes: FloatArray) -> NDArray[np.bool_]:
    """Return which faces (n,) are adult, frontal and neutral, without glasses or a hat."""
    told = dict(zip(ATTRIBUTES, attributes.T, strict=True))
    bare = (told["glasses"] < 0) & (told["hat"] < 0) & (told["age"] >= _MIN_AGE_YEARS)
    plain: NDArray[np.bool_] = bare & (told["smile"] < 0) & (np.abs(told["yaw"]) < _MAX_YAW_PX)
    return plain


def _condition_labels(attributes: FloatArray) -> FloatArray:
    """Return male, young, smiling (n, 3) in [-1, 1].

    As ``ksame.lab.training.parameter_gan.as_conditions`` spreads them.
    """
    told = dict(zip(ATTRIBUTES, attributes.T, strict=True))
    spread = [told["gender"] / 6, (50 - told["age"]) / 20, (told["smile"] - 3) / 4]
    labels: FloatArray = np.clip(np.stack(spread, axis=1), -1, 1)
    return labels


def _same_identity_distance(verifier: str) -> float:
    """Return the distance up to which new faces count as one identity when a pool is built.

    Smaller than the recogniser's threshold: portraits by one generator are nearer to each other than people
    are, and at the full threshold it draws only some 120 different ones.
    """
    return _SAME_PERSON_SHARE * RECOGNISERS[verifier].same_person


def _nearest_distance(accepted: FloatArray | None, code: FloatArray) -> float:
    return np.inf if accepted is None else float(np.linalg.norm(accepted - code, axis=1).min())


def _encode_image(face: NDArray[np.uint8]) -> bytes:
    """Encode an image as a WebP file."""
    _, file = cv2.imencode(".webp", face[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, _WEBP_QUALITY])
    return file.tobytes()


def _comparison_note() -> str:
    """Return one sentence on what the faces were compared with."""
    portraits = " and ".join(f"{name} (above {_same_identity_distance(name):.2f})" for name in VERIFIERS)
    return (
        f"Portraits drawn by a generator, of different people for {portraits}; they were not compared with"
        " the generator's training set."
    )
