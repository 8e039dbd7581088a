"""The page: what an audit found, for those who file it, those who use the data, and those who doubt it.

One HTML file that holds everything it shows. It needs no network and no script.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ksame.attack.score import Result
from ksame.audit.report import charts
from ksame.audit.report.charts import Bar
from ksame.audit.report.result import ImagePair, Report, VideoFigures
from ksame.audit.report.standards import iso20889, wp216
from ksame.audit.report.wording import (
    LABELS,
    describe_attack,
    describe_strongest,
    is_group,
    make_headline,
    percent,
    recogniser_name,
)
from ksame.audit.utility import find_disadvantaged
from ksame.core.text import make_visible, shorten

IMAGES_MAX = 8  # on the page at most: it is for filing, not for browsing
SYMBOLS = {"holds": "✓", "undecided": "?", "broken": "✗"}
CHARTS_MAX, SENTENCES_MAX = 3, 6  # of who is treated worse
_SHARE_UNITS = ("accuracy", "share")  # units of measures that are drawn in per cent


class Cell(NamedTuple):
    """One recogniser with one attack, in the table of all."""

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
        What was found.

    Examples
    --------
    >>> nothing = Report({}, (), (), "", (), pd.DataFrame(columns=["measure", "original", "deidentified",
    ...     "slice"]), {}, 0)
    >>> "no certificate" in page(nothing)
    True
    """
    head = make_headline(report)
    if report.broken:  # whatever that certificate says is not repeated
        report = replace(report, certificate={})
    return template("ksame.audit.report").render(
        report=report,
        head=head,
        label=LABELS[head.status],
        facts=_facts(report),
        # the assumptions are listed one by one below it
        claim=str(report.certificate.get("claim", "")).partition(" Assumed: ")[0],
        strongest=describe_strongest(report),
        images=[_image_entry(pair) for pair in report.pairs[:IMAGES_MAX]],
        originals=any(pair.before for pair in report.pairs[:IMAGES_MAX]),
        left_out=max(0, len(report.pairs) - IMAGES_MAX),
        attacks=_attacks(report.results),
        films=[_video_section(film, f"film{i}") for i, film in enumerate(report.films)],
        utility=_utility(report),
        worse=_fairness_section(report.utility),
        wp216=wp216(report),
        iso=iso20889(report),
        record=_record(report),
    )


def template(package: str) -> Template:
    """Return ``page.html`` of a package; whatever is put into it is shown as text, whatever it holds.

    Notes, captions and labels may quote file names: HTML in them is escaped, and what could turn the
    direction of writing or is not UTF-8 is made visible.
    """
    environment = Environment(
        autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files(package).joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(source)


def _shown(value: Any) -> Any:
    """Return what a page shows of a value; markup that this package made stays as it is."""
    return make_visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _facts(report: Report) -> list[tuple[str, str]]:
    """Return what was released, in a few words each."""
    certificate = report.certificate
    facts = {
        "Method": certificate.get("method"),
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
        "moments": pair.moments,
    }


def _video_section(film: VideoFigures, name: str) -> dict[str, Any]:
    """Return what was found of one video, in words, and its chart."""

    def both(pair: tuple[float, float], unit: str) -> str:
        old, new = (f"{value:.6g}" for value in pair)
        return f"{new} {unit}, as before" if old == new else f"{new} {unit}, before {old}"

    rows = {
        "Pictures": both(film.frames, "pictures"),
        "Duration": both(film.seconds, "s"),
        "Sound": film.sound,
        "Metadata": ", ".join(film.metadata) or "none",
        "Looked at": f"{film.looked} pictures with {film.faces} faces of {film.people} people",
        "New faces": f"{film.drawn} are found again as faces, {film.faces - film.drawn - film.kept} are not"
        + (f", {film.kept} stay visible on request" if film.kept else ""),
        "Original face to be seen": _listed(film.visible),
    }
    if film.left:
        rows["A face that nothing explains"] = _listed(film.left)
    title = make_visible(f"Expressions over time, {film.file}")
    chart = charts.traces(film.traces, name=name, title=title) if film.traces else ""
    return {"file": film.file, "rows": list(rows.items()), "chart": chart}


def _listed(frames: Sequence[int], first: int = 12) -> str:
    """Return the numbers of some frames.

    >>> _listed(()), _listed((3, 5)), _listed(range(20), first=2)
    ('in none', 'in 2 pictures: 3, 5', 'in 20 pictures: 0, 1, ...')
    """
    if not frames:
        return "in none"
    more = ", ..." if len(frames) > first else ""
    return f"in {len(frames)} pictures: {', '.join(map(str, frames[:first]))}{more}"


def _data(png: bytes) -> Markup:
    return Markup("data:image/png;base64," + base64.b64encode(png).decode("ascii"))


def _attacks(results: Sequence[Result]) -> dict[str, Any]:
    """Return the charts of the attacks and the table of all of them; nothing if none was scored."""
    if not results:
        return {}
    attacks = charts.by_attack(results)
    cells = {(r.recogniser, r.attack): _cell(r) for r in results}
    most: dict[str, float] = {}
    for r in results:
        most[r.recogniser] = max(r.rank1, most.get(r.recogniser, 0.0))
    # an attack that names several people is a point of another's curve: it stands in the table only
    single = [r for r in results if not is_group(r)]
    curved = [r for r in single if len(r.cmc) > 1]
    highlight = charts.highlighted_recognisers(single)
    return {
        "overview": charts.overview(single, name="overview") if single else "",
        "curves": [
            charts.cmc(attack, found, highlight=highlight, name=f"cmc{i}")
            for i, (attack, found) in enumerate(charts.by_attack(curved).items())
        ],
        "names": [(attack, describe_attack(attack)) for attack in attacks],
        "rows": [
            (recogniser_name(who), [cells.get((who, attack)) for attack in attacks])
            for who in sorted(most, key=lambda who: (-most[who], who))
        ],
        "people": max(r.people for r in results),
        "gallery": max(r.gallery for r in results),
        "faceless": max(r.faceless for r in results),
        "promised": any(r.bound < 1 for r in results),
    }


def _cell(result: Result) -> Cell:
    return Cell(
        rate=percent(result.rank1),
        interval=f"{100 * result.low:.0f}\u2013{100 * result.high:.0f}",
        verdict=result.verdict if result.bound < 1 else "nothing promised",
        symbol=SYMBOLS[result.verdict] if result.bound < 1 else "",
        tint=min(4, int(5 * result.rank1)),
    )


def _utility(report: Report) -> dict[str, Any]:
    """Return what is left of the data for everybody: a chart of shares, a table of the rest, detection."""
    rows = _bars(report.utility[report.utility["slice"] == "all"])
    found = [Bar(f"face found by {name}", math.nan, rate) for name, rate in report.detected.items()]
    shares = [bar._replace(label=_unit(bar.label)[0]) for bar in rows if _is_share(bar.label)] + found
    rest = [
        (*_unit(bar.label), _number(bar.original), _number(bar.deidentified))
        for bar in rows
        if not _is_share(bar.label)
    ]
    return {
        "charts": [
            charts.bars(part, name=f"utility{i}", title=title)
            for i, (title, part) in enumerate(_with_originals(shares).items())
        ],
        "rest": rest,
    }


def _with_originals(shares: Sequence[Bar]) -> dict[str, list[Bar]]:
    """Return the shares that originals have too, and those that tell of published faces only."""
    parts: dict[str, list[Bar]] = {}
    for bar in sorted(shares, key=lambda bar: math.isnan(bar.original)):
        who = "Published faces" if math.isnan(bar.original) else "Originals and published faces"
        parts.setdefault(f"{who}, in per cent", []).append(bar)
    return parts


def _fairness_section(table: pd.DataFrame) -> dict[str, Any]:
    """Return who comes off worse, in sentences and charts; without any, the shares that differ most."""
    # the test of what is more than noise travels with the table; a table made by hand has none
    found = (
        find_disadvantaged(table) if "chance" in table.attrs else pd.DataFrame(columns=["measure", "says"])
    )
    sliced = {
        str(measure): [bar for bar in _bars(rows, label="slice") if math.isfinite(bar.deidentified)]
        for measure, rows in table[table["slice"] != "all"].groupby("measure", sort=False)
    }
    whole = {bar.label: bar.deidentified for bar in _bars(table[table["slice"] == "all"])}
    differing = sorted((m for m in sliced if _is_share(m)), key=lambda m: -_spread(sliced[m]))
    chosen = [*dict.fromkeys(found["measure"])] or differing
    drawn = [m for m in chosen if len(sliced.get(m, ())) > 1 and m in whole][:CHARTS_MAX]
    return {
        "charts": [
            charts.dots(sliced[m], whole=whole[m], share=_is_share(m), name=f"slices{i}", title=m)
            for i, m in enumerate(drawn)
        ],
        "sentences": found["says"].tolist()[:SENTENCES_MAX],
        "more": max(0, len(found) - SENTENCES_MAX),
        "measured": bool(sliced),
    }


def _spread(bars: Sequence[Bar]) -> float:
    values = [bar.deidentified for bar in bars]
    return max(values, default=0.0) - min(values, default=0.0)


def _bars(table: pd.DataFrame, *, label: str = "measure") -> list[Bar]:
    shown = table["slice"].map(shorten) if label == "slice" else table[label]  # a label of the user's csv
    columns = shown, table["original"], table["deidentified"]
    return [Bar(str(m), _float(o), _float(d)) for m, o, d in zip(*columns, strict=True)]


def _float(value: Any) -> float:
    """Return a number; what was not measured is NaN."""
    return math.nan if value is None or pd.isna(value) else float(value)


def _is_share(measure: str) -> bool:
    """Whether a measure is a share of something."""
    return _unit(measure)[1] in _SHARE_UNITS


def _unit(measure: str) -> tuple[str, str]:
    """Split a measure's name from its unit.

    >>> _unit("age difference (years)"), _unit("SSIM")
    (('age difference', 'years'), ('SSIM', ''))
    """
    name, bracket, unit = measure.rpartition(" (")
    return (name, unit.removesuffix(")")) if bracket and unit.endswith(")") else (measure, "")


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "\u2013"


def _record(report: Report) -> list[tuple[str, str]]:
    """Return names and values for the file: the certificate's own, then the audit's where they differ."""
    certificate, audit = report.certificate, report.record
    own = {name: certificate[name] for name in ("software", "weights", "model") if certificate.get(name)}
    rows = {"certificate digest (sha256)": certificate["digest"]} if "digest" in certificate else {}
    rows |= {f"release: {name}": value for name, value in own.items()}
    rows |= {f"audit: {name}": value for name, value in audit.items() if value != own.get(name)}
    return [(name, _flat(value)) for name, value in rows.items()]


def _flat(value: Any) -> str:
    """Return a value on one line, however it is nested."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} {_flat(item)}" for key, item in value.items())
    return ", ".join(map(_flat, value)) if isinstance(value, list | tuple) else str(value)
