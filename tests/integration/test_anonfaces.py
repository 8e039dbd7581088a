"""AnonFACES end to end: one drawn portrait for each group, and nothing of any photo in it."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import generators
import ksame
from ksame.core.errors import CannotGuarantee, GuaranteeViolated, UsageError
from ksame.core.partition_type import check_law
from ksame.io import decode
from ksame.methods.anonfaces.measure import measure_portraits
from ksame.methods.anonfaces.method import NON_COMMERCIAL
from ksame.methods.anonfaces.targets import SURE_NEUTRAL_LOGIT, SURE_SMILE_LOGIT
from ksame.models.detectors import detect
from ksame.models.generator import ImageGenerator
from ksame.models.recognisers import VERIFIERS
from ksame.release import read_private
from ksame.render.tone import is_monochrome
from ksame.spaces.generator_space import ATTRIBUTES, GeneratorSpace

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def nine(people, tmp_path_factory):
    """Return a folder of nine people, one of them in two photos."""
    folder = tmp_path_factory.mktemp("nine")
    for subject in range(1, 10):
        for photo in people.glob(f"{subject:05}_*"):
            if subject == 1 or photo.stem.endswith("aa"):
                shutil.copy(photo, folder)
    return folder


@pytest.fixture(scope="module")
def released(nine, tmp_path_factory):
    folder = tmp_path_factory.mktemp("anonfaces")
    release = ksame.deidentify(nine, 3, method="anonfaces", subjects="prefix", seed=1)
    release.save(folder / "out")
    return folder / "out"


def test_the_law_holds_on_the_files(released):
    rows = read_private(released.with_name("out.private")).mapping
    data = [(released / row.output).read_bytes() for row in rows]
    bound = check_law(data, [row.subject for row in rows], 3)
    certificate = json.loads((released / "certificate.json").read_text())
    assert (certificate["kind"], certificate["scope"], certificate["k"]) == ("k-anonymity", "file", 3)
    assert certificate["bound"] == pytest.approx(bound)
    checks = ksame.verify(released, private=released.with_name("out.private")).checks
    assert any("at least 3 different people" in check for check in checks)
    assert len(set(data)) == len(certificate["people_per_group"])


def test_one_changed_byte_is_found(released, tmp_path):
    copy = shutil.copytree(released, tmp_path / "out")
    file = next(copy.rglob("*.png"))
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(GuaranteeViolated, match="was changed"):
        ksame.verify(copy)


def test_every_published_picture_is_a_whole_portrait_with_a_face(released):
    published = {path.read_bytes() for path in released.rglob("*.png")}
    certificate = json.loads((released / "certificate.json").read_text())
    assert len(published) == len(certificate["people_per_group"]) > 1
    for data in published:
        image = decode(data)
        assert image.shape == (1024, 1024, 3)
        assert len(detect(image).xyxy) == 1
        assert (image == image[..., :1]).all(), "the photos are grey"


def test_the_certificate_says_who_drew_and_who_judged(released):
    certificate = json.loads((released / "certificate.json").read_text())
    assert certificate["method"]["name"] == "anonfaces" and certificate["non_commercial"] is True
    assert certificate["method"]["generator"] == certificate["method"]["generator_map"] == "bundled"
    assert certificate["generator_digest"] == GeneratorSpace.bundled().generator
    assert certificate["map_digest"] == GeneratorSpace.bundled().digest
    assert certificate["verifiers"] == list(VERIFIERS.identity)
    assert set(VERIFIERS.identity) <= set(certificate["weights"])
    assert {"stylegan", "mobilefacenet"} <= set(certificate["weights"])
    assert set(certificate["kept_together"]) == {"gender", "age band", "skin tone"}
    assert all(0 <= share <= 1 for share in certificate["kept_together"].values())
    settings = read_private(released.with_name("out.private")).settings
    assert certificate["still_near"] == len(settings["still_near"])
    assert NON_COMMERCIAL in settings["notes"]
    assert any("groups of one kind only" in note for note in settings["notes"])
    assert (
        len(settings["attributes"]) == len(settings["group_affinity"]) == len(certificate["people_per_group"])
    )
    for one in settings["group_affinity"]:
        assert (
            set(one) == {"people", "least", "portrait", "is_distinct", "is_mismatched"}
            and one["least"] <= one["people"]
        )
    assert any("see group_affinity in settings.json" in note for note in settings["notes"])
    named = [name for name in settings["still_near"] if name in json.dumps(certificate)]
    assert not named  # who stays near is for the publisher alone


# expressions, of people who do not exist


@pytest.fixture(scope="module")
def actors(tmp_path_factory):
    """Return a folder of four drawn people, each once neutral and once smiling, NAME_EXPRESSION.png."""
    folder, space, draws = (
        tmp_path_factory.mktemp("actors"),
        GeneratorSpace.bundled(),
        ImageGenerator.bundled(),
    )
    rng, made = np.random.default_rng(3), 0
    while made < 4:
        style = np.tile(draws.styles(rng.normal(size=(1, draws.noise))), 2)[0]
        own = space.mean + 0.6 * (style - space.mean)
        both = [
            space.set_attributes(own, {"yaw": 0.0, "gender": 4.0, "light": 60.0, "smile": smile})
            for smile in (SURE_NEUTRAL_LOGIT, SURE_SMILE_LOGIT + 1)
        ]
        images = space.draw(np.stack(both), draws, half=True)
        seen = measure_portraits(images, space)
        if np.sign(seen.attributes[:, ATTRIBUTES.index("smile")]).tolist() != [-1, 1]:
            continue
        for image, expression in zip(images, ("neutral", "smiling"), strict=True):
            Image.fromarray(image).save(folder / f"{'abcd'[made]}_{expression}.png")
        made += 1
    return folder


@pytest.fixture(scope="module")
def with_classes(actors, tmp_path_factory):
    """Return the release of class faces, made by one's own copy of the generator with its map."""
    folder = tmp_path_factory.mktemp("classes")
    pair = generators.unpacked(folder / "pair")
    GeneratorSpace.bundled().save(folder / "map.npz")
    own = {"generator": pair, "generator_map": folder / "map.npz"}
    how = {"method": "anonfaces", "subjects": "prefix", "expression": "keep", "seed": 1}
    ksame.deidentify(actors, 2, **how, **own).save(folder / "out")
    return folder / "out"


def test_class_faces_are_published_where_the_same_people_stand_behind_both(with_classes):
    secret = with_classes.with_name("out.private")
    certificate = json.loads((with_classes / "certificate.json").read_text())
    rows = read_private(secret).mapping
    behind = {}
    for row in rows:
        expression = row.input.split("_")[1].split(".")[0]
        behind.setdefault((with_classes / row.output).read_bytes(), set()).add((row.subject, expression))
    assert len(behind) > len({frozenset(who for who, _ in some) for some in behind.values()})
    assert all(len({who for who, _ in some}) >= 2 for some in behind.values())
    assert all(len({how for _, how in some}) == 1 for some in behind.values())
    assert certificate["bound"] == 0.5 and certificate["kind"] == "k-anonymity"
    assert ksame.verify(with_classes).checks
    checks = ksame.verify(with_classes, private=secret).checks
    assert any("unless the same people are behind both" in check for check in checks)


def test_people_in_colour_have_portraits_in_colour(with_classes):
    for path in with_classes.rglob("*.png"):
        assert not is_monochrome(decode(path.read_bytes()))


def test_a_generator_of_ones_own_is_not_flagged(with_classes):
    certificate = json.loads((with_classes / "certificate.json").read_text())
    assert certificate["non_commercial"] is False and "stylegan" not in certificate["weights"]
    assert certificate["method"]["generator"] == certificate["method"]["generator_map"] == "custom"
    assert "pair" not in json.dumps(certificate), "a path may name people"
    settings = read_private(with_classes.with_name("out.private")).settings
    assert NON_COMMERCIAL not in settings["notes"]


# what is refused


def refused(actors, tmp_path, **how):
    return ksame.deidentify(actors, 2, method="anonfaces", subjects="prefix", seed=1, **how)


def test_a_generator_with_one_altered_byte_has_no_map(actors, tmp_path):
    pair = generators.unpacked(tmp_path / "pair")
    GeneratorSpace.bundled().save(tmp_path / "map.npz")
    weights = next(pair.glob("Mapping*.bin"))
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    with pytest.raises(UsageError, match="learnt from another generator"):
        refused(actors, tmp_path, generator=pair, generator_map=tmp_path / "map.npz")
    with pytest.raises(UsageError, match="go together"):
        refused(actors, tmp_path, generator=pair)


def test_scenes_and_too_few_people_are_refused(actors, tmp_path):
    with pytest.raises(UsageError, match="anonfaces publishes portrait only, not scene"):
        refused(actors, tmp_path, publish="scene")
    with pytest.raises(CannotGuarantee):
        ksame.deidentify(actors, 5, method="anonfaces", subjects="prefix")


# the command


def test_what_is_no_generator_or_no_map_is_one_sentence(cli, actors, tmp_path, monkeypatch):
    out = tmp_path / "map.npz"
    ran = cli("model", "train", "--generator", tmp_path, "-o", out)
    assert ran.code == 2 and "one mapping*.xml or mapping*.onnx" in ran.sentence
    ran = cli("model", "train", "-o", out)
    assert ran.code == 2 and "give inputs or --generator" in ran.sentence
    ran = cli("model", "train", actors, "--generator", "bundled", "-o", out)
    assert ran.code == 2 and "give inputs or --generator" in ran.sentence
    ran = cli("pool", "build", "--generator", tmp_path, "-o", tmp_path / "pool.npz")
    assert ran.code == 2 and "go together" in ran.sentence
    ran = cli("pool", "build", "-o", tmp_path / "nowhere" / "pool.npz")
    assert ran.code == 2 and "NAME.npz" in ran.sentence
    ran = cli("run", actors, "-o", tmp_path / "out", "-k", "2", "--method", "anonfaces", "--embedding", "x")
    assert ran.code == 2 and "'x' is not one of 'mobilefacenet'" in ran.sentence
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path))
    monkeypatch.setenv("KSAME_OFFLINE", "1")
    ran = cli("model", "train", "--generator", "bundled", "-o", out)
    assert ran.code == 1 and "models add stylegan" in ran.sentence
