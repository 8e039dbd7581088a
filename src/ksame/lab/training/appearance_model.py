"""Training an appearance model on a folder of photos, with a page that shows what it learned."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from string import Template

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ksame import io
from ksame.analysis.photos import analyse_photos
from ksame.core.context import Context
from ksame.core.errors import CannotGuarantee, Failure, UsageError
from ksame.core.geometry import FRAME
from ksame.core.text import make_visible
from ksame.io.sources import ImageInput, find_sources
from ksame.render.portrait import Surrogate, draw_portrait
from ksame.spaces.appearance import AppearanceSpace, ReconstructionError, measure_reconstruction

MIN_FACES = 30  # of fewer, each has such a weight in the model that its images would show real people
MODE_DEVIATIONS = 2.5  # standard deviations to either side at which a mode is shown


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """A trained model and how well it describes faces that it had not seen.

    Parameters
    ----------
    model : AppearanceSpace
        Trained on all faces.
    output, report : Path
        Where the model and the page about it are.
    faces, held_out : int
        How many it was trained on, and on how many of them the error was measured with a model that was
        trained on the others.
    error : ReconstructionError
        That error.
    failures : tuple of Failure
        Photos that gave no face.
    """

    model: AppearanceSpace
    output: Path
    report: Path
    faces: int
    held_out: int
    error: ReconstructionError
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        """Say it in three sentences."""
        shape, texture = len(self.model.shape_axes), len(self.model.texture_axes)
        return (
            f"Trained on {self.faces} faces: {shape} components of shape and {texture} of texture,"
            f" {int(self.model.nuisance.sum())} of them light or pose. On {self.held_out} faces that a model"
            f" of the others had not seen they hold {self.error.shape_kept:.1%} of the variance of shape and"
            f" {self.error.texture_kept:.1%} of that of texture; the landmarks are off by"
            f" {self.error.shape.mean() / FRAME.eye_distance:.1%} of the distance between the eyes and the"
            f" colours by {self.error.texture.mean():.1f} of 255 levels."
            f" {len(self.failures)} photos gave no face."
        )


def train_appearance_model(
    inputs: ImageInput | Iterable[ImageInput],
    output: str | Path,
    *,
    context: Context | None = None,
) -> TrainingResult:
    """Train an appearance model on the largest face of each photo and write it, with a page about it.

    Parameters
    ----------
    inputs : path, array, or several
        Photos, folders of photos, or (h, w, 3) uint8 arrays.
    output : path
        The model, ``NAME.npz``; the page is written beside it as ``NAME.html``.
    context : Context, optional
        Workers and progress.

    Raises
    ------
    UsageError
        If the model could not be written there.
    CannotGuarantee
        If there are so few faces that the model would reproduce real people.
    """
    out = Path(output)
    if out.suffix != ".npz" or out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"A model is a file NAME.npz in a folder that is there. Got {str(out)!r}.")
    context = context or Context()
    found = analyse_photos(find_sources(inputs), context)
    rows = np.flatnonzero(found.rank == 0)
    if len(rows) < MIN_FACES:
        raise CannotGuarantee(f"A model needs at least {MIN_FACES} photos with a face. Got {len(rows)}.")
    held, failures = _held_out(len(rows)), found.failures
    faces = found.faces[np.concatenate([rows[~held], rows[held]])]
    del found  # the images of a large set fill the memory: keep one copy, of which slices are views
    tell, seen = context.progress, int((~held).sum())
    tell("training", 0, 2)
    error = measure_reconstruction(AppearanceSpace.fit(faces[:seen]), faces[seen:])
    tell("training", 1, 2)
    model = AppearanceSpace.fit(faces)
    page = out.with_suffix(".html")
    training = TrainingResult(model, out, page, len(faces), len(faces) - seen, error, failures)
    _write(training)
    tell("training", 2, 2)
    return training


def _held_out(n: int) -> NDArray[np.bool_]:
    """Choose a tenth of n faces in two runs: neighbours by name are often one person, and stay together."""
    held: NDArray[np.bool_] = np.arange(n) * 20 // n % 10 == 5
    return held


def _write(training: TrainingResult) -> None:
    """Write model and page; a run that is stopped leaves no half of a model."""
    part = training.output.with_suffix(".partial.npz")
    training.model.save(part)
    part.replace(training.output)
    image = base64.b64encode(io.encode_png(modes(training.model))).decode()
    name, summary = (html.escape(make_visible(text)) for text in (training.output.stem, str(training)))
    page = Template(PAGE_TEMPLATE).substitute(name=name, summary=summary, image=image, far=MODE_DEVIATIONS)
    training.report.write_text(page, encoding="utf-8")


def modes(model: AppearanceSpace, *, count: int = 4) -> NDArray[np.uint8]:
    """Draw what the first components do: one row each, shape on the left, texture on the right."""
    width, height, gap, head = 128, 160, 6, 24
    a = len(model.shape_axes)
    steps = np.linspace(-MODE_DEVIATIONS, MODE_DEVIATIONS, 5)
    page = Image.new("RGB", (10 * width + 3 * gap, count * (height + head) + gap), "white")
    pen = ImageDraw.Draw(page)
    for side, (word, first, number) in enumerate([("shape", 0, a), ("texture", a, len(model.deviation) - a)]):
        left = gap + side * (5 * width + gap)
        for row in range(min(count, number)):
            top = row * (height + head)
            aside = ", light or pose" * bool(model.nuisance[first + row])
            pen.text((left, top + 4), f"{word} {row + 1}{aside}", "#222", font_size=14)
            codes = np.outer(steps, np.eye(len(model.deviation))[first + row] * model.deviation)
            for column, face in enumerate(_faces(model, codes)):
                small = Image.fromarray(face).resize((width, height), Image.Resampling.LANCZOS)
                page.paste(small, (left + column * width, top + head))
    return np.asarray(page)


def _faces(model: AppearanceSpace, codes: NDArray[np.float64]) -> list[NDArray[np.uint8]]:
    """Draw codes as portraits."""
    scale = model.detail.shape[1] / FRAME.width
    drawn = zip(model.decode(codes), model.shapes(codes) * scale, strict=True)
    return [draw_portrait(Surrogate(rgb, shape)) for rgb, shape in drawn]


PAGE_TEMPLATE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>$name: appearance model</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 82rem; margin: 2rem auto }
img { max-width: 100% }
</style>
<h1>Appearance model $name</h1>
<p>$summary</p>
<h2>What the first components do</h2>
<p>The mean face is in the middle of each row; to either side one component alone is changed by up to $far
standard deviations. These faces are synthetic.</p>
<img alt="Synthetic faces: the first components of shape and of texture" src="data:image/png;base64,$image">
<h2>Keep it as you keep the photos</h2>
<p>A model is made of its photos. Each face in it can be drawn again, the better the fewer there were:
publish a model only if you may publish the photos.</p>
</html>
"""
