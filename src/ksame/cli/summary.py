"""What a run did, in figures and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ksame.analysis.identify import subject_table
from ksame.cli.shell import confirm, print_json, say, say_table, warn
from ksame.core.context import Context
from ksame.io import VIDEO_SUFFIXES
from ksame.methods import Method, Obscure
from ksame.models import weights
from ksame.models.recognisers import VERIFIERS
from ksame.release import Release, ResidualRecord, Verification


def summary(release: Release, checked: Verification | None, seconds: float) -> dict[str, Any]:
    """Return the figures of a run; what only the written files tell is there if they were written."""
    certificate = checked.certificate if checked else None
    mapping, failures = release.private.mapping, release.private.failures
    named = [*{row.input for row in mapping}, *(failure.input for failure in failures)]
    of_videos = ("frames", "faces_drawn", "faces_covered", "kept_people", "audio")
    return {
        "method": release.method.name,
        "publish": release.publish,
        "k": release.method.k,
        "bound": release.guarantee.bound,
        "kind": release.guarantee.kind,
        "claim": str(release.guarantee),
        "photos": sum(Path(name).suffix.lower() not in VIDEO_SUFFIXES for name in named),
        "videos": len(release.clips),
        **{name: release.details[name] for name in of_videos if release.clips},
        "people": len({row.subject for row in mapping}),
        "published": certificate["files"] if certificate else len(release.files) + len(release.clips),
        "faces": len(mapping),
        "distinct": len({row.group for row in mapping}),
        "unusable_faces": release.details["unusable_faces"],
        "untouched_faces": certificate["untouched_faces"] if certificate else None,
        "withheld_files": certificate["withheld_files"] if certificate else None,
        "faceless_photos": len(release.private.faceless),
        "failures": [failure._asdict() for failure in failures],
        "seconds": round(seconds, 1),
        **({"frames_per_second": round(release.details["frames"] / seconds, 1)} if release.clips else {}),
    }


def print_result(
    release: Release,
    figures: Mapping[str, Any],
    checked: Verification | None,
    folders: tuple[Path, Path],
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Print what a run did, and return its exit code."""
    (out, secret), kept = folders, checked.private if checked else None
    notes, untouched = (kept.settings.get("notes", []), kept.residual) if kept else ([], [])
    code = 5 if figures["untouched_faces"] or figures["withheld_files"] else 4 if figures["failures"] else 0
    print_failures(figures["failures"])
    if not quiet:
        print_summary(release, figures, notes, out if checked else None)
    if untouched:
        print_residual_faces(untouched, secret)
    if as_json:
        listed = {"notes": notes, "untouched": [one._asdict() for one in untouched]}
        print_json(dict(figures) | listed | {"release": str(out), "private": str(secret), "exit_code": code})
    return code


def describe_method(method: Method[Any]) -> dict[str, str]:
    """Return what a user chooses a method by."""
    networks = method.networks(Context(verifiers=VERIFIERS.identity))
    limited = [name for name in networks if weights.CATALOGUE[name].non_commercial]
    strength = method.describe_strength() if isinstance(method, Obscure) else ""
    return {
        "method": method.name,
        "promise": method.promise,
        "publishes": ", ".join(method.outputs),
        "works on": ", ".join(method.media),
        "speed": method.speed,
        "licence": f"not for commercial use ({', '.join(limited)})" if limited else method.licence,
        **({"strength": strength} if strength else {}),
    }


def print_failures(failures: Sequence[Mapping[str, str]]) -> None:
    """Name each input that was lost, or a part of it; it is an error, so --quiet does not hide it."""
    for failure in failures:
        warn(f"{failure['input']}: {failure['reason']}")


def print_residual_faces(untouched: Sequence[ResidualRecord], secret: Path, max_count: int = 10) -> None:
    """Say where faces were left, file by file; it is an error, so --quiet does not hide it."""
    say((f"A second detector sees {len(untouched)} untouched faces.", "bold red"))
    for output, some in groupby(untouched, key=lambda one: one.output):
        runs = list(_frame_ranges(list(some)))
        more = f" and {len(runs) - max_count} more" if len(runs) > max_count else ""
        where = f": in frames {', '.join(runs[:max_count])}{more}" if runs else ""
        say(("!", "red"), f" {output}{where}")
    say(f"Each with its box: {secret / 'untouched.csv'}; look at them before you publish.")


def _frame_ranges(untouched: Sequence[ResidualRecord]) -> Iterator[str]:
    """Yield ranges of frames in words."""
    frames = {one.frame: one.seconds for one in untouched if one.frame is not None}
    for _, part in groupby(enumerate(sorted(frames)), key=lambda pair: pair[1] - pair[0]):
        run = [frame for _, frame in part]
        if len(run) == 1:
            yield f"{run[0]} ({frames[run[0]]:.2f} s)"
        else:
            yield f"{run[0]} to {run[-1]} ({frames[run[0]]:.2f} to {frames[run[-1]]:.2f} s)"


def print_summary(
    release: Release, figures: Mapping[str, Any], notes: Sequence[str], out: Path | None
) -> None:
    """Say in words what was done."""
    if release.details.get("subjects") == "auto":
        _print_people(release)
    if figures["photos"]:
        photos = [row for row in release.private.mapping if row.output not in release.clips]
        say(
            f"{len({row.subject for row in photos})} people in {figures['photos']} photos: {len(photos)}"
            f" faces replaced by {len({row.group for row in photos})} new ones, {figures['published']} files."
        )
    if figures["videos"]:
        _print_videos(release, figures, done=out is not None)
    if unusable := figures["unusable_faces"]:
        done = "covered" if figures["publish"] == "scene" else "left out"
        warn(f"{unusable} faces were too small, too turned or too unclear: {done}.")
    if faceless := figures["faceless_photos"]:
        warn(
            f"{faceless} photos were published with no face replaced: see faceless.csv in the private folder."
        )
    for note in notes or release.private.settings.get("notes", ()):
        warn(note)
    say((figures["claim"], "bold"))
    if 1 > figures["bound"] > 1 / figures["k"] + 1e-9:
        say(f"The bound is above 1/k = {1 / figures['k']:.3g}: some people have more photos than others.")
    if out:
        confirm(f"written and verified: {out}")
    else:
        say("Dry run: nothing was written.")


def _print_videos(release: Release, figures: Mapping[str, Any], *, done: bool) -> None:
    """Say in words what was done to videos, or in a dry run would be."""
    rows = [row for row in release.private.mapping if row.output in release.clips]
    were = "were" if done else "would be"
    sound = {"keep": "kept", "drop": "left out", "disguise": "changed in pitch"}[figures["audio"]]
    say(
        f"{len({row.subject for row in rows})} people in {figures['videos']} videos of {figures['frames']}"
        f" frames: faces {were} drawn {figures['faces_drawn']} times and covered"
        f" {figures['faces_covered']} times; sound {sound}."
    )
    if kept := figures["kept_people"]:
        warn(f"{kept} of them stay visible, as asked.")
    say(f"{figures['seconds']:.0f} s in all, {figures['frames_per_second']} fps.")


def _print_people(release: Release, max_count: int = 20) -> None:
    """Show who was taken for one person: those linked loosely first, then by the number of photos."""
    mapping = [row for row in release.private.mapping if row.output not in release.clips]
    ranked = subject_table([row.subject for row in mapping], [row.input for row in mapping], first=4)
    loose = set(release.private.settings.get("linked_loosely", ()))
    ranked.sort(key=lambda who: who.subject not in loose)  # stable: these are to be looked at first
    rows = []
    for who in ranked[:max_count]:
        more = f" and {who.photos - 4} more" if who.photos > 4 else ""
        linked = " (may be several people: linked, counted as one)" if who.subject in loose else ""
        rows.append((who.subject, str(who.photos), ", ".join(who.names) + more + linked))
    say("Linked as one person each (if that is wrong, name them in a csv: --subjects FILE.csv):")
    say_table(("person", "photos", "which"), rows)
    if len(ranked) > max_count:
        counts = Counter(who.photos for who in ranked[max_count:])
        rest = ", ".join(f"{number} with {photos}" for photos, number in sorted(counts.items(), reverse=True))
        say(f"and {len(ranked) - max_count} more people: {rest} photos each.")
