from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksame import io
from ksame.analysis.identify import IdentifiedPhotos
from ksame.analysis.photos import AnalysedPhotos, replaced_boxes
from ksame.core.boxes import Boxes
from ksame.core.context import Context
from ksame.core.errors import Faceless, Failure
from ksame.core.guarantee import Guarantee
from ksame.io.sources import Source
from ksame.methods import Plan
from ksame.pipeline import Scenes
from ksame.release.names import published_names
from ksame.render.base import Rendered
from ksame.render.scene import RenderedScenes, ScenePlan
from samples import faces

suffixes = st.sampled_from([".jpg", ".JPG", ".png", ".pgm", ".heic", ".webp"])
stems = st.text("ab_2.é\udcff", min_size=1, max_size=4).filter(lambda stem: stem.strip("."))
sources = st.lists(
    st.builds(
        lambda folder, stem, suffix: folder + stem + suffix,
        st.sampled_from(["", "x/", "x/y/"]),
        stems,
        suffixes,
    ),
    max_size=12,
    unique=True,
)


@given(sources, st.sampled_from([None, ".png"]))
def test_kept_names_mirror_the_tree_and_no_name_is_used_twice(names, suffix):
    kept = published_names(names, names="keep", seed=0, suffix=suffix)
    assert len(set(kept)) == len(names)
    for name, new in zip(names, kept, strict=True):
        old, path = PurePosixPath(name), PurePosixPath(new)
        assert path.parent == PurePosixPath("images") / old.parent
        assert path.name.startswith(old.stem)
        same = suffix is None and old.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp")
        assert path.suffix == (old.suffix.lower() if same else ".png")


@given(sources, st.integers(0, 2**256 - 1))
def test_random_names_tell_the_type_and_nothing_else(names, seed):
    new = published_names(names, names="random", seed=seed)
    assert len(set(new)) == len(names)
    others = [f"{number}{PurePosixPath(name).suffix}" for number, name in enumerate(names)]
    assert published_names(others, names="random", seed=seed) == new, "they do not depend on the names"
    assert all(PurePosixPath(name).parent == PurePosixPath("images") for name in new)
    assert all(len(PurePosixPath(name).stem) == 16 and int(PurePosixPath(name).stem, 16) >= 0 for name in new)


def test_another_seed_gives_other_names():
    assert not set(published_names(["a.png"] * 9, names="random", seed=1)) & set(
        published_names(["a.png"] * 9, names="random", seed=2)
    )


@pytest.fixture
def found():
    """Three photos: two faces in the first, none in the second, in the third one and one that is no use."""
    photos = [np.full((40, 60, 3), 100 + 10 * number, np.uint8) for number in range(3)]
    four = faces(3)
    photos[2][10:30, 30:50] = 250  # a face that cannot be replaced
    boxes = np.array([[5.0, 5, 15, 15], [30, 5, 40, 15], [5, 5, 15, 15]])
    return AnalysedPhotos(
        sources=tuple(Source(f"{number}.png", photo) for number, photo in enumerate(photos)),
        faces=type(four)(four.rgb, four.points, boxes, four.score, four.source, four.subject),
        photo=np.array([0, 0, 2]),
        unusable=(np.zeros((0, 4)), np.zeros((0, 4)), np.array([[30.0, 10, 50, 30]])),
        rank=np.array([0, 1, 0]),
        failures=(),
    )


def stamp(photo, row):
    """Write the row's number over the photo, and over what was written before."""
    new = photo.copy()
    new[10, 10] = row
    new[0, row] = 255
    return new


class Painted:
    """Draws with a function of a photo and a row; the largest face is drawn last."""

    def __init__(self, points, paint):
        self.points, self.paint = points, paint

    def render(self, image, rows):
        for row in rows[::-1].tolist():
            image = self.paint(image, row)
        return Rendered(image, replaced_boxes(self.points[rows]))


def published(found, paint=stamp, *, seed=0, jobs=1, engine="threads", **options):
    """Publish photos as scenes in which faces are painted over."""
    plan = Plan(np.arange(len(found.faces)), Painted(found.faces.points, paint), Guarantee("none"))
    context = Context(seed=seed, jobs=jobs, engine=engine)
    return Scenes(**options).files(IdentifiedPhotos.unlinked(found), plan, context)


@pytest.mark.parametrize(("jobs", "engine"), [(1, "threads"), (2, "threads"), (2, "processes")])
def test_a_photo_is_made_when_it_is_asked_for(found, jobs, engine):
    files, outputs, *_ = published(found, jobs=jobs, engine=engine)
    assert outputs == ["images/0.png", "images/0.png", "images/2.png"], "a photo without a face is left out"
    assert list(files) == ["images/0.png", "images/2.png"]
    assert len(files) == 2
    assert dict(files.items()) == {name: files[name] for name in files}
    first, last = (io.decode(files[name]) for name in files)
    assert first[10, 10].tolist() == [0, 0, 0], "the largest face is painted last"
    assert first[0, :2].tolist() == [[255] * 3] * 2
    assert first[30, 30].tolist() == [100] * 3, "what is not painted stays"
    assert (last[10:30, 30:50] == 120).all(), "a face that cannot be replaced is covered"
    assert last[39, 0].tolist() == [120] * 3


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_a_grey_photo_stays_grey_and_a_colour_photo_is_not_changed(found, suffix):
    def paint(photo, row):
        new = photo.copy()
        new[5:15, 5:15] = (200, 120, 100)
        return new

    grey = [Source(f"{number}{suffix}", source.pixels) for number, source in enumerate(found.sources)]
    files = published(replace(found, sources=tuple(grey)), paint).files
    for data in files.values():
        seen = io.decode(data)
        assert (seen == seen[..., :1]).all()
        assert abs(int(seen[10, 10, 0]) - 142) < 3, "with the lightness of what was painted"
    colour = [source.pixels.copy() for source in found.sources]
    for photo in colour:
        photo[30:, :30] = (30, 90, 200)
    others = tuple(Source(f"{number}{suffix}", photo) for number, photo in enumerate(colour))
    files = published(replace(found, sources=others), paint).files
    assert files[f"images/0{suffix}"] == io.encode(paint(colour[0], 0), suffix)


def test_names_that_are_random_are_listed_in_their_own_order(found):
    files, outputs, *_ = published(found, names="random", seed=3)
    assert list(files) == sorted(files)
    assert set(outputs) == set(files)


def test_what_is_seen_in_a_finished_photo_is_covered_until_nothing_is(found, monkeypatch):
    known, face = [], np.array([[12.0, 22, 24, 34]])

    def see(rgb, boxes):
        known.append(boxes)
        return Boxes(face, np.ones(1), np.zeros((1, 5, 2))) if len(known) == 1 else Boxes.none()

    monkeypatch.setattr("ksame.render.scene.visible_faces", see)
    found.sources[2].pixels[22:34, 12:24] = 200  # a face that only the check sees
    files = published(found).files
    last = io.decode(files["images/2.png"])
    assert last[22:34, 12:24].max() < 150, "it is covered"
    assert files.inspect("images/2.png", b"") == 0
    replaced, covered = known[0]
    points = found.faces.points[files.scenes["images/2.png"].faces[0]]
    assert (replaced[:2] <= points.min(axis=0)).all()
    assert (replaced[2:] >= points.max(axis=0)).all()
    assert covered.tolist() == [25, 5, 55, 35]  # the box 30, 10, 50, 30 and the margin of the ellipse
    assert len(known[1]) == 3, "what was covered is known in the next round"


@pytest.mark.parametrize("allowed", [False, True])
def test_a_photo_in_which_a_face_stays_visible_is_withheld_unless_allowed(found, monkeypatch, allowed):
    monkeypatch.setattr(
        "ksame.render.scene.visible_faces",
        lambda rgb, boxes: Boxes(np.ones((1, 4)) * [0, 0, 9, 9], np.ones(1), np.zeros((1, 5, 2))),
    )
    files = published(found, allow_residual=allowed).files
    written = dict(files.items())
    assert list(written) == (["images/0.png", "images/2.png"] if allowed else [])
    assert all(files.inspect(name, b"") == 1 for name in files)


@pytest.mark.parametrize("faceless", ["publish", "skip"])
def test_photos_in_which_nobody_is_replaced(found, faceless):
    failures = (Failure("1.png", "no face was found"),)
    one = replace(found, failures=failures, readable=(True, True, True))
    made = published(one, faceless=faceless)
    if faceless == "publish":
        assert made.faceless == (Faceless("1.png", "images/1.png", 0),)
        assert (io.decode(made.files["images/1.png"]) == 110).all()
        assert made.failures == ()
    else:
        assert (made.faceless, made.failures) == ((), failures)
    box = np.array([[20.0, 10, 30, 20]])
    one = replace(one, unusable=(one.unusable[0], box, one.unusable[2]))
    made = published(one, faceless=faceless)
    assert made.faceless == (Faceless("1.png", "images/1.png", 1),), "its faces are covered in any case"
    assert made.failures == ()


def test_a_photo_that_cannot_be_made_stops_the_others():
    source = Source("a.png", np.zeros((4, 4, 3), np.uint8))

    begun = []

    def fail(photo, row):
        begun.append(row)
        raise RuntimeError("no")

    renderer = Painted(np.zeros((1, 468, 2)), fail)
    scenes = {f"{n}.png": ScenePlan(source, np.array([0]), np.zeros((0, 4))) for n in range(40)}
    with pytest.raises(RuntimeError, match="no"):
        list(RenderedScenes(scenes, renderer, Context(jobs=2)).items())
    assert len(begun) < 40
