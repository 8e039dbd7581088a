"""Write the report: one HTML file for those who file it, who use the data, and who doubt it.

The file holds everything it shows. It needs no network and no script.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ksame.attack.score import AttackResult
from ksame.audit.report import charts
from ksame.audit.report.result import ImagePair, Report, VideoFigures
from ksame.audit.report.utility_section import fairness_section, utility_section
from ksame.audit.report.wording import (
    LABELS,
    covers_files,
    describe_attack,
    describe_rate,
    describe_strongest,
    is_k_anonymous,
    make_headline,
    most_successful,
    percent,
    recogniser_name,
)
from ksame.core.text import make_visible
from ksame.release import method_name

IMAGES_MAX = 8  # images in the report at most: it is for filing, not for browsing
SYMBOLS = {"holds": "✓", "undecided": "?", "broken": "✗"}


class Finding(NamedTuple):
    """A term of a standard, what it asks, and what the evidence says of this release."""

    term: str
    asks: str
    says: str


class Cell(NamedTuple):
    """One recogniser with one attack, in the table of attacks."""

    rate: str
    interval: str
    verdict: str
    symbol: str
    tint: int


def page(report: Report) -> str:
    """Return an audit as one self-contained HTML file.

    Parameters
    ----------
    report : Report
        The audit.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame(columns=["measure", "original", "deidentified", "slice"])
    >>> "no certificate" in page(Report({}, (), (), "", (), table, {}, 0))
    True
    """
    headline, strongest = make_headline(report), describe_strongest(report)
    if report.broken:  # a certificate that does not verify is not quoted
        report = replace(report, certificate={})
    return template("ksame.audit.report").render(
        report=report,
        headline=headline,
        label=LABELS[headline.status],
        strongest=strongest,
        wp216=wp216(report),
        iso=iso20889(report),
        facts=_facts(report),
        # the assumptions are listed one by one below it
        claim=str(report.certificate.get("claim", "")).partition(" Assumed: ")[0],
        images=[_image_entry(pair) for pair in report.pairs[:IMAGES_MAX]],
        shows_originals=any(pair.before for pair in report.pairs[:IMAGES_MAX]),
        left_out=max(0, len(report.pairs) - IMAGES_MAX),
        attacks=_attack_section(report.results),
        videos=[_video_section(video, f"video{i}") for i, video in enumerate(report.videos)],
        utility=utility_section(report),
        fairness=fairness_section(report.utility),
        record=_record(report),
    )


def template(package: str) -> Template:
    """Return ``page.html`` of a package; every value that is put into it is shown as text.

    Notes, captions and labels may quote file names: HTML in them is escaped, and characters that change the
    direction of writing or are not UTF-8 are made visible.
    """
    environment = Environment(
        autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files(package).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source)


def _shown(value: Any) -> Any:
    """Return a value as the report shows it; markup that this package made stays as it is."""
    return make_visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _facts(report: Report) -> list[tuple[str, str]]:
    """Return what was released, as names and values."""
    certificate = report.certificate
    facts = {
        "Method": method_name(certificate),
        "Published as": certificate.get("publish"),
        "k": certificate.get("k"),
        "Files": len(certificate["files"]) if "files" in certificate else None,
        "People": sum(certificate["people_per_group"]) if "people_per_group" in certificate else None,
    }
    return [(name, str(value)) for name, value in facts.items() if value is not None]


def _image_entry(pair: ImagePair) -> dict[str, Any]:
    return {
        "after": _data(pair.after),
        "before": [_data(png) for png in pair.before],
        "people": "1 person" if pair.people == 1 else f"{pair.people} people",
        "frames": pair.frames,
    }


def _video_section(video: VideoFigures, name: str) -> dict[str, Any]:
    """Return the figures of one video, in words, and its chart."""

    def compare(pair: tuple[float, float], unit: str) -> str:
        old, new = (f"{value:.6g}" for value in pair)
        return f"{new} {unit}, unchanged" if old == new else f"{new} {unit}, originally {old}"

    lost = video.faces - video.drawn - video.kept
    rows = {
        "Frames": compare(video.frames, "frames"),
        "Duration": compare(video.seconds, "s"),
        "Sound": video.sound,
        "Metadata": ", ".join(video.metadata) or "none",
        "Compared": f"{video.compared} frames with {video.faces} faces of {video.people} people",
        "New faces": f"{video.drawn} are detected as faces, {lost} are not"
        + (f", {video.kept} stay visible on request" if video.kept else ""),
        "Original face visible": _listed(video.visible),
    }
    if video.residual:
        rows["Unexplained face"] = _listed(video.residual)
    title = make_visible(f"Expressions over time, {video.file}")
    chart = charts.traces(video.traces, name=name, title=title) if video.traces else ""
    return {"file": video.file, "rows": list(rows.items()), "chart": chart}


def _listed(frames: Sequence[int], first: int = 12) -> str:
    """Return the numbers of some frames.

    >>> _listed(()), _listed((3, 5)), _listed(range(20), first=2)
    ('in no frame', 'in 2 frames: 3, 5', 'in 20 frames: 0, 1, ...')
    """
    if not frames:
        return "in no frame"
    more = ", ..." if len(frames) > first else ""
    return f"in {len(frames)} frames: {', '.join(map(str, frames[:first]))}{more}"


def _data(png: bytes) -> Markup:
    return Markup("data:image/png;base64," + base64.b64encode(png).decode("ascii"))


def _attack_section(results: Sequence[AttackResult]) -> dict[str, Any]:
    """Return the charts of the attacks and the table of all of them; nothing if none was scored."""
    if not results:
        return {}
    overview, curves = charts.attack_charts(results)
    attacks = list(charts.by_attack(results))
    cells = {(r.recogniser, r.attack): _cell(r) for r in results}
    highest: dict[str, float] = {}
    for r in results:
        highest[r.recogniser] = max(r.rank1, highest.get(r.recogniser, 0.0))
    return {
        "overview": overview,
        "curves": curves,
        "names": [(attack, describe_attack(attack)) for attack in attacks],
        "rows": [
            (recogniser_name(name), [cells.get((name, attack)) for attack in attacks])
            for name in sorted(highest, key=lambda name: (-highest[name], name))
        ],
        "people": max(r.people for r in results),
        "gallery": max(r.gallery for r in results),
        "faceless": max(r.faceless for r in results),
        "promised": any(r.bound < 1 for r in results),
    }


def _cell(result: AttackResult) -> Cell:
    return Cell(
        rate=percent(result.rank1),
        interval=f"{100 * result.low:.0f}\u2013{100 * result.high:.0f}",
        verdict=result.verdict if result.bound < 1 else "no bound",
        symbol=SYMBOLS[result.verdict] if result.bound < 1 else "",
        tint=min(4, int(5 * result.rank1)),
    )


def _record(report: Report) -> list[tuple[str, str]]:
    """Return names and values for the record: the certificate's, then the audit's where they differ."""
    certificate, audit = report.certificate, report.record
    own = {name: certificate[name] for name in ("software", "weights", "model") if certificate.get(name)}
    rows = {"certificate digest (sha256)": certificate["digest"]} if "digest" in certificate else {}
    rows |= {f"release: {name}": value for name, value in own.items()}
    rows |= {f"audit: {name}": value for name, value in audit.items() if value != own.get(name)}
    return [(name, _flat(value)) for name, value in rows.items()]


def _flat(value: Any) -> str:
    """Return a nested value on one line."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_flat(item)}" for key, item in value.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list | tuple) else str(value)


def wp216(report: Report) -> tuple[Finding, ...]:
    """Return the three questions of WP216 and what the evidence says of this release."""
    k = report.certificate.get("k")
    proved = covers_files(report)
    top = most_successful(report.results)
    if proved:
        single = (
            f"Each published face is shared by at least {k} people, to the last byte: it singles out a group,"
            " not a person. WP216 accepts k-anonymity as an answer to singling out, and to that only."
        )
    else:
        single = (
            "Not prevented: each published image is made from one person's photo and differs from the"
            " others. How often it identifies the person is measured, not bounded."
        )
    rate = f"The most successful attack {describe_rate(top, report)}." if top else "It was not scored."
    same = " Photos of one person share one face, so they can be linked to their group." if proved else ""
    apart = report.certificate.get("select")
    revealed = f" Groups were stratified by {apart}, so it is revealed of every member." if apart else ""
    return (
        Finding("Singling out", "Can one person's record be picked out?", single),
        Finding(
            "Linkability",
            "Can records of one person be linked, here or with other data?",
            f"{rate}{same} A second release of the same people, and tables published with the images,"
            " are not covered.",
        ),
        Finding(
            "Inference",
            "Can something be deduced about a person?",
            "Not prevented. What the members of a group share (apparent gender, age, skin tone, expression)"
            f" can be read from the face.{revealed} Whoever knows that a person is in a group knows what its"
            " members have in common.",
        ),
    )


def iso20889(report: Report) -> tuple[Finding, ...]:
    """Return the terms of ISO/IEC 20889:2018 for this release; they classify it, and certify nothing."""
    certificate = report.certificate
    bounded = is_k_anonymous(report)
    technique = (
        "Microaggregation, which the standard lists under randomization techniques: the faces of a group are"
        " replaced by one face that is computed from the faces of a group."
        if bounded
        else "Masking or randomization, depending on the method: the face is changed or covered, and no group"
        " shares it."
    )
    where = "the face" if covers_files(report) else "the face code; the images are outside the model"
    model = (
        f"K-anonymity model, k = {certificate['k']}, counted in people (data principals), with one"
        f" quasi-identifier: {where}. No l-diversity or t-closeness is claimed."
        if bounded
        else "None: no formal model applies, and privacy is measured only."
    )
    return (
        Finding("De-identification technique", "What was done to the data?", technique),
        Finding("Formal privacy measurement model", "What is bounded, and how?", model),
        Finding(
            "Data truthfulness at record level",
            "Is each record true of its person?",
            "Not kept: a published face belongs to nobody."
            if bounded
            else "Kept in part: each image is still made from its own person's photo.",
        ),
        Finding(
            "Re-identification attack",
            "Who is the attacker?",
            "The worst case: one who knows who is in the data and has photos of everyone in it."
            if report.results
            else "Not scored.",
        ),
    )
