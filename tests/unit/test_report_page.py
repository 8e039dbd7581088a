"""The page: its first sentence is true in every state, and anybody can read it."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksame import io
from ksame.attack.recognisers import euclidean
from ksame.attack.score import AttackResult, score, verdict
from ksame.audit.report import charts
from ksame.audit.report.page import iso20889, page, wp216
from ksame.audit.report.result import ImagePair, Report
from ksame.audit.report.utility_section import Bar, bars
from ksame.audit.report.wording import describe_strongest, make_headline, most_successful
from ksame.audit.rerun import rerun_differences
from ksame.audit.utility import find_disadvantaged
from ksame.core.guarantee import Guarantee
from ksame.release import verify
from ksame.spaces.generator_space import GeneratorSpace

PNG = io.encode_png(np.full((8, 6, 3), 120, np.uint8))
ORIGINAL = io.encode_png(np.full((8, 6, 3), 77, np.uint8))
COLUMNS = ["measure", "original", "deidentified", "slice"]


def certificate(guarantee: Guarantee | None = None, **more: Any) -> dict[str, Any]:
    claim = guarantee or Guarantee("k-anonymity", 5, 0.2, assumptions=("each person has one prefix",))
    return {
        "method": "ksame-m",
        "publish": "portrait" if claim.scope == "file" else "scene",
        "k": 5,
        "kind": claim.kind,
        "bound": claim.bound,
        "scope": claim.scope,
        "claim": str(claim),
        "assumptions": list(claim.assumptions),
        "people_per_group": [5, 5],
        "files": {"images/a.png": "00", "images/b.png": "00"},
        "weights": {"yunet": "ab" * 32},
        "digest": "cd" * 32,
    } | more


CODE = certificate(Guarantee("k-anonymity", 5, 0.2, "code"))


def attacked(*, noise: float, people: int = 60, bound: float | None = 0.2, **names: str) -> AttackResult:
    """Attack codes that are the originals and noise: the more of it, the fewer are named."""
    rng = np.random.default_rng(5)
    originals = rng.normal(size=(people, 8))
    probes = originals + noise * rng.normal(size=originals.shape)
    who = np.arange(people)
    named = {"attack": "naive", "recogniser": "sface"} | names
    return score(euclidean, originals, probes, who, who, bound=bound, **named)


def groups(people: int = 60, **names: str) -> AttackResult:
    """Attack groups of five that share a code."""
    rng = np.random.default_rng(6)
    originals = rng.normal(size=(people, 8)) + 20 * rng.normal(size=(people // 5, 8)).repeat(5, axis=0)
    shared = originals.reshape(-1, 5, 8).mean(axis=1).repeat(5, axis=0)
    who = np.arange(people)
    named = {"attack": "naive", "recogniser": "sface"} | names
    return score(euclidean, originals, shared, who, who, bound=0.2, **named)


def table() -> pd.DataFrame:
    rows = [
        ("gender, LDA (accuracy)", 0.95, 0.8),
        ("apparent gender kept (share)", np.nan, 0.9),
        ("PSNR (dB)", np.nan, 17.0),
    ]
    kinds = [("all", 0.0), ("gender: female", 0.05), ("gender: male", -0.05)]
    return pd.DataFrame([(m, o, d + e, s) for m, o, d in rows for s, e in kinds], columns=COLUMNS)


def report(**more: Any) -> Report:
    whole: dict[str, Any] = {
        "certificate": certificate(),
        "checks": ("the certificate is as it was issued",),
        "unchecked": (),
        "broken": "",
        "results": (groups(), groups(recogniser="dlib", attack="reverse")),
        "utility": table(),
        "detected": {"yunet": 1.0},
        "residual_faces": 0,
        "pairs": (ImagePair(PNG, 5),) * 3,
    }
    return Report(**(whole | more))


SEES = attacked(noise=0.1)  # names everybody
BLIND = attacked(noise=100.0, people=400)  # surely below the bound
TWO = replace(SEES, attack="intersection", recogniser="groups")
EMPTY = pd.DataFrame(columns=COLUMNS)
STATES = {
    "held": report(),
    "held and decided": report(results=(BLIND,)),
    "held, nothing tried": report(results=()),
    "no private folder": report(unchecked=("how many people stand behind each face, ...",), results=()),
    "does not verify": report(broken="'images/a.png' was changed.", pairs=()),
    "not even readable": report(broken="it was changed.", certificate={"k": "x", "files": {}}, checks=()),
    "broken though proved": report(results=(SEES,)),
    "second release": report(results=(groups(), TWO)),
    "scene above": report(certificate=CODE, results=(SEES, BLIND)),
    "scene undecided": report(certificate=CODE),
    "scene below": report(certificate=CODE, results=(BLIND,)),
    "scene, nothing tried": report(certificate=CODE, results=()),
    "ad hoc": report(certificate=certificate(Guarantee("none")), results=(attacked(noise=1.0, bound=None),)),
    "wrong-map": report(
        certificate=certificate(Guarantee("wrong-map")), results=(attacked(noise=1.0, bound=None),)
    ),
    "no certificate": report(certificate={}, results=(attacked(noise=1.0, bound=None),)),
    "no certificate, nothing tried": report(certificate={}, results=(), utility=EMPTY, pairs=(), detected={}),
    "said k, above": report(certificate={"k": 5, "bound": 0.2}, results=(SEES,)),
    "said k, below": report(certificate={"k": 5, "bound": 0.2}, results=(BLIND,)),
    "said k, nothing tried": report(certificate={"k": 5, "bound": 0.2}, results=()),
    "untouched faces": report(residual_faces=2),
}
DRAWN = (  # states whose pages differ in their parts, not in their words alone
    "held",
    "does not verify",
    "not even readable",
    "scene, nothing tried",
    "ad hoc",
    "no certificate, nothing tried",
)
SENTENCES = {
    "held": ("held", "none of the 2 attacks tried named more than the promised 20 % of people"),
    "held and decided": ("held", "none of the 1 attack tried"),
    "held, nothing tried": ("held", "The promise is verified"),
    "no private folder": ("care", "occurs at least 5 times"),
    "does not verify": ("broken", "does not verify: 'images/a.png' was changed."),
    "not even readable": ("broken", "does not verify: it was changed."),
    "broken though proved": (
        "broken",
        "did not hold: SFace, searching known photos for released faces, correctly named",
    ),
    "second release": (
        "broken",
        "Alone, this release keeps its promise, but not together with the second one",
    ),
    "scene above": ("broken", "The promise covers the face codes only; the images were measured, and SFace"),
    "scene undecided": ("care", "none of the 2 attacks tried"),
    "scene below": ("care", "named more than 20 % of people."),
    "scene, nothing tried": ("care", "was not measured"),
    "ad hoc": ("none", "Nothing is promised about recognition: SFace"),
    "wrong-map": ("none", "The only promise covers the program's own codes"),
    "no certificate": ("none", "This folder has no certificate, so nothing is promised: SFace"),
    "no certificate, nothing tried": ("none", "and no attack was scored"),
    "said k, above": ("broken", "should have k = 5, and it does not: SFace"),
    "said k, below": ("care", "should have k = 5, and none of"),
    "said k, nothing tried": ("none", "should have k = 5, and no attack was scored"),
    "untouched faces": ("care", "However, a second detector still finds 2 faces that were not replaced."),
}


@cache
def drawn(state: str) -> str:
    return page(STATES[state])


@pytest.mark.parametrize("state", STATES)
def test_the_first_sentence_is_true_in_every_state(state: str) -> None:
    status, sentence = SENTENCES[state]
    found = make_headline(STATES[state])
    assert found.status == status
    assert sentence in found.sentence


@pytest.mark.parametrize("state", DRAWN)
def test_it_comes_first(state: str) -> None:
    assert Text(drawn(state)).text.index(make_headline(STATES[state]).sentence) < 150


def test_the_proof_is_the_reason_and_a_small_sample_is_called_one() -> None:
    assert make_headline(STATES["held"]).why.startswith(
        "The reason is the proof, not the attacks that failed"
    )
    assert "2 of 2 attacks are undecided: with 60 people" in make_headline(STATES["held"]).why
    assert "undecided" not in make_headline(STATES["held and decided"]).why


def test_a_rate_above_the_bound_that_may_be_chance_is_not_called_below_it() -> None:
    lucky = replace(groups(), rank1=0.25, low=0.15, high=0.37)
    assert "significantly named more than" in make_headline(report(results=(lucky,))).sentence


def test_a_release_without_its_private_folder_is_read_with_care(released: Path) -> None:
    found = verify(released)
    mine = report(certificate=found.certificate, checks=found.checks, unchecked=found.unchecked, results=())
    assert make_headline(mine).status == "care"
    whole = verify(released, private=f"{released}.private")
    mine = report(certificate=whole.certificate, checks=whole.checks, unchecked=whole.unchecked, results=())
    assert make_headline(mine).status == "held"


shares = st.floats(0, 1, allow_nan=False)


@st.composite
def any_results(draw: st.DrawFn) -> AttackResult:
    low, rate, high = sorted(draw(st.tuples(shares, shares, shares)))
    bound = draw(st.sampled_from([0.2, 1.0]))
    attack = draw(st.sampled_from(["naive", "group", "intersection", "new one"]))
    judged = verdict(low, high, bound if bound < 1 else None)
    return AttackResult(attack, "sface", rate, low, high, 0.01, bound, judged, 50, 100, 50, 0.0)


@given(
    results=st.lists(any_results(), max_size=4),
    scope=st.sampled_from(["file", "code"]),
    broken=st.sampled_from(["", "It was changed."]),
    residual=st.integers(0, 2),
)
def test_held_is_said_only_of_what_verifies_covers_the_files_and_was_not_broken(
    results: list[AttackResult], scope: Any, broken: str, residual: int
) -> None:
    claim = certificate(Guarantee("k-anonymity", 5, 0.2, scope))
    found = make_headline(
        report(certificate=claim, results=tuple(results), broken=broken, residual_faces=residual)
    )
    worst = any(result.verdict == "broken" for result in results)
    assert (found.status == "held") == (scope == "file" and not (broken or residual or worst))


def test_the_strongest_attack_is_told_in_hundreds_of_people() -> None:
    result = replace(groups(), rank1=0.163, low=0.09, high=0.241, chance=0.0098, bound=0.2)
    assert describe_strongest(report(results=(result,))) == (
        "The strongest attack tried, SFace, searching known photos for released faces, correctly named 16"
        " of 100 people (9 to 24); random guessing would name 1; the promised bound is 20."
    )
    assert describe_strongest(report(results=())) == "No attack was scored."
    assert "no bound was promised" in describe_strongest(STATES["ad hoc"])
    for state in ("scene above", "said k, above"):  # no promise about the files
        assert describe_strongest(STATES[state]).endswith("; the bound is 20.")


def test_naming_a_whole_group_is_not_naming_a_person() -> None:
    many = replace(SEES, attack="group", bound=1.0, verdict="undecided")
    assert most_successful((many, BLIND)) is BLIND
    assert "among several names" in describe_strongest(report(results=(many,)))


def test_wording_claims_no_more_than_the_release() -> None:
    single, link, infer = wp216(STATES["held"])
    assert "at least 5 people" in single.says
    assert "share one face" in link.says
    assert infer.says.startswith("Not prevented")
    assert wp216(STATES["scene above"])[0].says.startswith("Not prevented")
    assert "stratified by gender" in wp216(report(certificate=certificate(select="gender")))[2].says
    # microaggregation is a randomization technique there, and keeps no record true
    technique, model, truth, _ = iso20889(STATES["held"])
    assert "randomization" in technique.says
    assert "k = 5" in model.says
    assert "the images are outside the model" in iso20889(STATES["scene above"])[1].says
    assert truth.says.startswith("Not kept")
    assert iso20889(STATES["ad hoc"])[1].says.startswith("None")


class Text(HTMLParser):
    """A page as a basic accessibility check sees it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []  # open tags
        self.words: list[str] = []
        self.children: dict[int, list[str]] = {}  # of each svg
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.inside and self.inside[-1] == "svg":
            self.children.setdefault(len([1 for t, _ in self.tags if t == "svg"]), []).append(tag)
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.inside, f"</{tag}> closes nothing"
        assert self.inside.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        if not {"style", "title", "desc"} & set(self.inside):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.mark.parametrize("state", DRAWN)
def test_a_basic_accessibility_check_passes(state: str) -> None:
    html = Text(drawn(state))
    assert not html.inside
    assert html.all("html") == [{"lang": "en"}]
    assert len(html.all("title")) == 1 + len(html.all("svg"))
    assert len(html.all("h1")) == len(html.all("main")) == 1
    levels = [int(tag[1]) for tag, _ in html.tags if re.fullmatch("h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels)), "a heading level is jumped over"
    assert all(attrs.get("alt") for attrs in html.all("img"))
    assert all(attrs.get("scope") in ("col", "row") for attrs in html.all("th"))
    ids = [attrs["id"] for _, attrs in html.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for number, svg in enumerate(html.all("svg"), 1):
        assert svg["role"] == "img"
        assert html.children[number][:2] == ["title", "desc"]
        assert set((svg["aria-labelledby"] or "").split()) <= set(ids)
    for _, attrs in html.tags:  # what can be scrolled can be reached without a mouse, and has a name
        if "scroll" in (attrs.get("class") or ""):
            assert (attrs["tabindex"], attrs["role"]) == ("0", "region")
            assert attrs["aria-label"]


@pytest.mark.parametrize("state", DRAWN)
def test_the_page_holds_all_it_shows(state: str) -> None:
    html = Text(drawn(state))
    ids = {attrs["id"] for _, attrs in html.tags if "id" in attrs}
    assert not html.all("script") and not html.all("link") and not html.all("metadata")
    for _, attrs in html.tags:
        for name in ("src", "href", "xlink:href"):
            link = attrs.get(name) or "data:"
            assert link.startswith("data:image/png;base64,") or link == "data:" or link[1:] in ids, link
    for target in re.findall(r"url\(([^)]*)\)", drawn(state)):
        assert target.removeprefix("#") in ids
    assert "@import" not in drawn(state)


def luminance(colour: str) -> float:
    whole = colour * 2 if len(colour) == 3 else colour
    levels = [int(whole[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_colours_of_text_stand_out_by_day_by_night_and_on_paper() -> None:
    themes = re.findall(r":root \{(.*?)\}", drawn("held"), re.DOTALL)
    assert len(themes) == 3
    for theme in themes:
        colour = dict(re.findall(r"--(\w+): #(\w+)", theme))
        for background in ("paper", "card"):
            for text in ("ink", "soft", "held", "care", "broken", "none"):
                assert contrast(colour[text], colour[background]) >= 4.5, (text, background)
    for tint in re.findall(r"\.t\d \{ background: #(\w+)", drawn("held")):
        assert contrast("222222", tint) >= 4.5 and contrast("4a4a4a", tint) >= 4.5
    assert contrast(*re.findall(r"\.chart figcaption \{ color: #(\w+)", drawn("held")), "fff") >= 4.5
    for ink in (charts.INK_COLOUR, charts.SOFT_COLOUR, charts.BLUE, charts.RED):
        assert contrast(ink[1:], "ffffff") >= 4.5


def test_whatever_a_note_or_a_name_holds_stays_text() -> None:
    bad = '<script>alert("1")</script>'
    bad_table = pd.DataFrame([(f"{bad} (share)", 0.5, 0.4, "all"), (bad, 5.0, 4.0, "all")], columns=COLUMNS)
    whole = report(
        broken=bad,
        notes=(bad,),
        utility=bad_table,
        record={bad: [bad, {bad: bad}]},
        results=(groups(attack=bad, recogniser=bad),),
        detected={bad: 1.0},
    )
    assert "<script" not in page(whole)
    assert "<script" not in page(
        replace(whole, broken="", certificate=certificate(method=bad, assumptions=[bad]))
    )
    assert bad in Text(page(whole)).text


def test_an_original_is_shown_only_if_it_was_handed_over_and_then_the_page_says_so() -> None:
    original = base64.b64encode(ORIGINAL).decode()
    shown = page(report(pairs=(ImagePair(PNG, 5, (ORIGINAL,)), ImagePair(PNG, 1))))
    assert original in shown
    assert "Do not publish it." in shown
    assert "Stands for 1 person" in Text(shown).text
    assert "The originals are left out, so that" in Text(drawn("held")).text
    assert "Stands for 5 people" in Text(drawn("held")).text
    assert original not in drawn("held")


def test_what_a_broken_certificate_says_is_not_repeated() -> None:
    html = drawn("does not verify")
    assert "k-anonymity with k = 5" not in html and "cd" * 32 not in html
    assert "cd" * 32 in drawn("held")
    assert "Assumed: each person has one prefix." in Text(drawn("held")).text


def test_the_record_tells_once_what_release_and_audit_share() -> None:
    shared = {"weights": {"yunet": "ab" * 32}, "recognisers": ["sface", "lbp"]}
    html = Text(page(report(record=shared, results=(), utility=EMPTY, pairs=())))
    assert html.text.count("ab" * 32) == 1
    assert "audit: recognisers sface, lbp" in html.text


def test_the_same_report_is_the_same_page_and_a_large_one_is_small() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (220, 176, 3), np.uint8)
    faces = (ImagePair(io.encode_png(noise), 5),) * 40  # noise: as large as a PNG can be
    names = [f"recogniser {i}" for i in range(10)]
    kinds = ["naive", "reverse", "parrot"]
    many = tuple(attacked(noise=2.0, people=102, attack=a, recogniser=r) for a in kinds for r in names)
    large = report(results=many, pairs=faces)
    once = page(large)
    assert once == page(large)
    assert len(once) < 2_000_000
    assert "32 more are not shown." in once


def test_charts_say_what_they_show_to_those_who_do_not_see_them() -> None:
    assert "SFace 100 % (94 % to 100 %)" in charts.overview((SEES, BLIND), name="x")
    curve = charts.cmc("naive", [groups()], highlight=("sface",), name="x")
    assert ">SFace<" in curve and ">bound<" in curve
    assert ">bound<" not in charts.cmc("n", [attacked(noise=1.0, bound=None)], highlight=(), name="x")
    chart = bars([Bar("kept", np.nan, 0.9)], name="x", title="kept")
    assert "kept: not measured before, 90 % after" in chart


def test_at_most_three_recognisers_stand_out_the_strongest_first() -> None:
    found = [attacked(noise=n, recogniser=f"r{n}") for n in (2.0, 0.1, 1.0, 3.0)]
    assert charts.highlighted_recognisers(found) == ("r0.1", "r1.0", "r2.0")


def test_who_is_treated_worse_is_told_where_it_is_more_than_noise() -> None:
    measured = table()
    assert "is treated significantly worse" in Text(drawn("held")).text
    names = ("gender: female", "gender: male")
    measured.attrs["chance"] = {name: {"apparent gender kept (share)": 1e-9} for name in names}
    measured.attrs["better"] = {"apparent gender kept (share)": "more"}
    says = find_disadvantaged(measured)["says"].tolist()
    assert len(says) == 1
    html = Text(page(report(utility=measured)))
    assert says[0] in html.text
    assert "not measured: it needs labels" in Text(drawn("no certificate, nothing tried")).text


def test_an_imitation_by_another_generator_is_weaker():
    own = GeneratorSpace.bundled().digest
    assert list(rerun_differences({"method": {"name": "anonfaces"}, "map_digest": own})) == []
    (says,) = rerun_differences({"method": {"name": "anonfaces"}, "map_digest": own[::-1]})
    assert "generator" in says
