"""Make models/data/generator.npz and models/data/pool.npz again, with the figures of their card.

Usage: python scripts/make_pool.py PHOTOS... [--labels INFO.csv] -o FOLDER [--size 500]

PHOTOS are those that the appearance model in the box was trained on: one face each, largest first. INFO.csv
says what is known of some of them (face_id, face_age, face_gender); the rest is guessed by networks.
Nothing of the photos is written but the two files and two pictures of people who do not exist.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from PIL import Image

from ksame.analysis.photos import analyse_photos
from ksame.core.context import Context
from ksame.core.geometry import FRAME
from ksame.io.sources import find_sources
from ksame.lab.training.parameter_gan import (
    as_conditions,
    check_collapse,
    predict_labels,
    train_code_generator,
)
from ksame.methods.shift.pool import CodeGenerator, make_pool
from ksame.methods.shift.pool.gan import Conditioning, Loss
from ksame.models.recognisers import RECOGNISERS
from ksame.render.portrait import Surrogate, draw_portrait
from ksame.spaces.appearance import AppearanceSpace, landmarks_on_frame

RECOGNISER = "sface"
STEPS: dict[Loss, int] = {"lsgan": 8_000, "wgan": 10_000, "wgan-gp": 8_000}
HOW: tuple[Conditioning, ...] = ("cgan", "auxiliary")


def drawn(space, codes, width=118):
    """Return portraits of codes, small."""
    scale, height = space.detail.shape[1] / FRAME.width, round(width * FRAME.height / FRAME.width)
    for code in codes:
        face = Surrogate(space.decode(code[None])[0], space.shapes(code[None])[0] * scale)
        yield np.asarray(
            Image.fromarray(draw_portrait(face)).resize((width, height), Image.Resampling.LANCZOS)
        )


def sheet(space, codes, columns, path):
    """Write portraits of codes in rows."""
    faces = list(drawn(space, codes))
    rows = [np.hstack(faces[start : start + columns]) for start in range(0, len(faces), columns)]
    Image.fromarray(np.vstack(rows)).save(path, quality=85)


def between(generator, columns=10):
    """Return codes between two faces, and along each condition with the noise at 0 [S fig. 8.3, 8.6-8.8]."""
    t = np.linspace(0, 1, columns)[:, None]
    ends = np.random.default_rng(0).uniform(-1, 1, (2, generator.noise))
    plain = np.tile([0.0, 0.0, -0.9], (columns, 1))
    rows = [generator.decode((1 - t) * ends[:1] + t * ends[1:], plain)]
    for condition in range(3):
        c = plain.copy()
        c[:, condition] = np.linspace(-1, 1, columns)
        rows.append(generator.decode(np.zeros((columns, generator.noise)), c))
    return np.concatenate(rows)


def nearest(a, b, same=False):
    """Return the distance of each row of a to the nearest row of b; if same, to another one."""
    apart = np.sqrt(np.maximum(2 - 2 * a @ b.T, 0))
    return (apart + 9 * np.eye(len(a)) if same else apart).min(axis=1)


def said(name, values):
    """Print a distribution."""
    parts = " ".join(f"{v:.3f}" for v in np.quantile(values, [0, 0.01, 0.05, 0.5, 0.95]))
    print(f"{name}: least, 1 %, 5 %, median, 95 %: {parts}", flush=True)


def learned(faces, space, info):
    """Return codes and conditions of faces."""
    c = as_conditions(predict_labels(faces))
    for row, name in enumerate(Path(source).stem for source in faces.source):
        if name in info:
            c[row, 0] = 1 if info[name]["face_gender"] == "male" else -1
            c[row, 1] = np.clip((50 - float(info[name]["face_age"])) / 20, -1, 1)
    return space.encode(faces, nuisance=True), c


def main():
    """Train with every loss, keep WGAN-GP's generator, build the pool, and say how near it comes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+", type=Path)
    parser.add_argument("--labels", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--size", type=int, default=500)
    given = parser.parse_args()
    found = analyse_photos(find_sources(given.photos), Context())
    faces, space = found.faces[found.rank == 0], AppearanceSpace.bundled()
    info = {row["face_id"]: row for row in csv.DictReader(given.labels.open())} if given.labels else {}
    codes, c = learned(faces, space, info)
    kept: CodeGenerator | None = None
    for loss, steps in STEPS.items():
        for conditioning in HOW:
            made = train_code_generator(
                codes, c, space, loss=loss, conditioning=conditioning, steps=steps, seed=1
            )
            tests = check_collapse(made, codes, c, space, seed=0)._asdict().items()
            print(
                loss,
                conditioning,
                steps,
                *(f"{n}: {t.distance:.4f} p={t.p:.3f}" for n, t in tests),
                flush=True,
            )
            kept = made if (loss, conditioning) == ("wgan-gp", "auxiliary") else kept
    make(given, faces, space, kept)


def make(given, faces, space, generator):
    """Build the pool against the faces it must not resemble, and write all there is to publish."""
    real, net = seen_photos(faces, RECOGNISER), RECOGNISERS[RECOGNISER]
    near = []

    def refuse(seen):
        near.extend(nearest(seen, real) < net.same_person)
        return np.array(near[len(near) - len(seen) :], dtype=bool)

    pool = make_pool(
        given.size,
        generator=generator,
        seed=1,
        recogniser=RECOGNISER,
        refuse=refuse,
        progress=lambda *a: print(*a, flush=True),
    )
    print(f"too near to a real face: {sum(near)} of {len(near)}", flush=True)
    given.output.mkdir(parents=True, exist_ok=True)
    generator.save(given.output / "generator.npz")
    pool.save(given.output / "pool.npz")
    sheet(space, pool.codes[:40], 10, given.output / "pool.jpg")
    sheet(space, between(generator), 10, given.output / "interpolations.jpg")
    figures(space, pool, faces)


def seen_photos(faces, name):
    """Return how a recogniser sees registered faces."""
    net, points = RECOGNISERS[name], landmarks_on_frame(faces) * faces.rgb.shape[2] / FRAME.width
    return np.concatenate([net.codes(net.chips(r, p[None])) for r, p in zip(faces.rgb, points, strict=True)])


def seen_codes(space, codes, name):
    """Return how a recogniser sees the portraits of codes."""
    net, views = RECOGNISERS[name], []
    for code in codes:
        shape = space.shapes(code[None])[0] * space.detail.shape[1] / FRAME.width
        views.append(
            net.codes(net.chips(draw_portrait(Surrogate(space.decode(code[None])[0], shape)), shape[None]))
        )
    return np.concatenate(views)


def figures(space, pool, faces):
    """Print how near pool faces come to real ones and to one another, by two recognisers."""
    for name in (RECOGNISER, "mobilefacenet"):
        real = seen_photos(faces, name)
        old, new = (seen_codes(space, codes, name) for codes in (pool.codes, pool.deidentified))
        said(f"{name} pool to training", nearest(old, real))
        said(f"{name} de-identified pool to training", nearest(new, real))
        said(f"{name} training to training", nearest(real, real, same=True))
        said(f"{name} pool to pool", nearest(old, old, same=True))
        said(f"{name} de-identified to de-identified", nearest(new, new, same=True))
        said(f"{name} pool to its de-identified", np.linalg.norm(old - new, axis=1))


if __name__ == "__main__":
    main()
