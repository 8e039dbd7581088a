"""What an audit's figures mean, in plain sentences that are true in every state a release can be in."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ksame.attack.score import Result
from ksame.audit.report.result import VIDEO_SUFFIX, Report
from ksame.core.text import shorten

HeadlineStatus = Literal["held", "care", "broken", "none"]
LABELS: dict[HeadlineStatus, str] = {
    "held": "✓ Held",
    "care": "! Read with care",
    "broken": "✗ Do not rely on it",
    "none": "○ No bound promised",
}

_RECOGNISERS = {
    "dlib": "dlib",
    "facenet": "FaceNet",
    "hog": "HOG",
    "lbp": "LBP",
    "lpq": "LPQ",
    "mobilefacenet": "MobileFaceNet",
    "sface": "SFace",
}
_ATTACKS = {
    "naive": "comparing released faces with known photos",
    "naive, other moment": "comparing released faces with other moments of the originals",
    "naive, other photo": "comparing released faces with other photos of the people",
    "parrot, other photo": "comparing released faces with other photos treated in the same way",
    "reverse": "looking for known photos among the released faces",
    "parrot": "comparing released faces with known photos treated in the same way",
    "automatic parrot": "guessing the blur or the blocks and treating known photos alike",
    "enhancement": "sharpening released faces before comparing them",
    "background": "looking at everything but the face",
    "crop200": "looking at a crop with some of the surroundings",
    "crop300": "looking at a crop with much of the surroundings",
    "reconstruction": "guessing the swap of faces and undoing it",
    "intersection": "comparing two releases of the same people",
    "group": "naming as many people as share a face",
}


class Headline(NamedTuple):
    """Whether the promise held: one sentence that is true as it stands, and the reason."""

    status: HeadlineStatus
    sentence: str
    why: str


def percent(share: float) -> str:
    """Return a share in per cent, with no more figures than a reader needs; few is not none.

    >>> percent(0.2), percent(0.1667), percent(0.0098), percent(0.0001), percent(0)
    ('20 %', '16.7 %', '1 %', 'under 0.1 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def per_hundred(share: float) -> str:
    """Return how many of 100 people a share is; few is not none, and nearly all is not all.

    >>> per_hundred(0.163), per_hundred(0.002), per_hundred(0), per_hundred(0.998)
    ('16', 'fewer than 1', '0', 'more than 99')
    """
    number = round(100 * share)
    if number == 0 and share > 0:
        return "fewer than 1"
    return "more than 99" if number == 100 and share < 1 else str(number)


def recogniser_name(name: str) -> str:
    """Return a recogniser's name as its makers write it."""
    return _RECOGNISERS.get(name) or shorten(name)  # that of a file of the user's own may hold anything


def describe_attack(name: str) -> str:
    """Return what an attack does, in words.

    >>> describe_attack("reverse"), describe_attack("brute force")
    ('looking for known photos among the released faces', 'with the attack "brute force"')
    """
    plain = name.removesuffix(VIDEO_SUFFIX).replace("_", " ").replace("-", " ")
    return _ATTACKS.get(plain, f'with the attack "{name}"')


def describe_attacker(result: Result) -> str:
    """Return who attacked and how, as the subject of a sentence."""
    if result.attack == "intersection":  # no recogniser is needed
        return "whoever compares two releases of the same people"
    return f"{recogniser_name(result.recogniser)}, {describe_attack(result.attack)},"


def is_group(result: Result) -> bool:
    """Whether an attack names several people at once: its rate is not that of naming a person."""
    return result.attack.startswith("group")


def most_successful(results: tuple[Result, ...]) -> Result | None:
    """Return the attack that surely names most people; naming a whole group comes after naming a person."""
    return max(results, key=lambda r: (not is_group(r), r.low, r.rank1), default=None)


def describe_rate(result: Result, report: Report | None = None) -> str:
    """Return how many people an attack named, with the interval; or faces: in a video a person has many."""
    what = "faces" if report is not None and report.films else "people"
    rates = (
        f"{per_hundred(result.rank1)} of 100 {what} ({per_hundred(result.low)} to {per_hundred(result.high)})"
    )
    return f"had the right person among several names for {rates}" if is_group(result) else f"named {rates}"


def describe_strongest(report: Report) -> str:
    """Return the strongest attack in one sentence: its rate, what guessing gives, what is allowed."""
    result = most_successful(report.results)
    if result is None:
        return "No attack was scored."
    allowed = (
        f"the promise allows {per_hundred(result.bound)}" if covers_files(report) else "nothing was promised"
    )
    if result.bound < 1 and not covers_files(report):  # of codes, or on somebody's word
        allowed = f"the bound is {per_hundred(result.bound)}"
    return (
        f"The best attacker we tried, {describe_attacker(result)} {describe_rate(result, report)};"
        f" guessing would name {per_hundred(result.chance)}; {allowed}."
    )


def make_headline(report: Report) -> Headline:
    """Return whether the promise held, in a sentence that is true whatever was found.

    Parameters
    ----------
    report : Report
        The audit.
    """
    found = _headline(report)
    left = report.residual_faces
    if not left:
        return found
    faces = "1 face" if left == 1 else f"{left} faces"
    leak = f"a second detector still sees {faces} untouched"
    if report.films:
        leak = f"{faces} can still be seen in the {sum(film.looked for film in report.films)} frames we tried"
    sentence = f"{found.sentence} But {leak}."
    return Headline("care" if found.status == "held" else found.status, sentence, found.why)


def _headline(report: Report) -> Headline:
    if report.broken and report.certificate and "files" not in report.certificate:
        return Headline(
            "broken",
            f"This folder is said to keep k = {report.certificate['k']}, and it does not: {report.broken}",
            "There is no certificate, so the files themselves were counted. k people must share each picture,"
            " to the last byte.",
        )
    if report.broken:
        return Headline(
            "broken",
            f"The certificate does not verify: {report.broken}",
            "Nothing it says may be relied on. Get the release again from where it was issued, and compare"
            " the digest. What was measured here is true of the files as they are now.",
        )
    if not k_anonymous(report):
        return (
            _headline_stated_k(report)
            if report.certificate.get("bound", 1) < 1
            else _headline_unpromised(report)
        )
    return _headline_proved(report) if covers_files(report) else _headline_measured(report)


def k_anonymous(report: Report) -> bool:
    """Whether a certificate that verifies promises a bound."""
    return not report.broken and str(report.certificate.get("kind", "none")).startswith("k-anonymity")


def covers_files(report: Report) -> bool:
    """Whether the bound that is promised covers the files, and not the codes alone."""
    return k_anonymous(report) and report.certificate.get("scope") == "file"


def people_counted(report: Report) -> bool:
    """Whether verify counted the people behind each face, which needs the private folder."""
    return not any(what.startswith("how many people") for what in report.unchecked)


def _above_bound(report: Report) -> Result | None:
    """Return the strongest attack surely above the bound; no promise speaks of a second release."""
    return most_successful(
        tuple(r for r in report.results if r.verdict == "broken" and r.attack != "intersection")
    )


def _headline_unpromised(report: Report) -> Headline:
    """No certificate, no guarantee, or wrong-map alone: the rates are all there is."""
    top = most_successful(report.results)
    lead = "Nothing is promised about recognition"
    if not report.certificate:
        lead = "This folder has no certificate, so nothing is promised"
    elif report.certificate.get("kind") == "wrong-map":
        lead = "The only promise is about the program's own codes (wrong-map); no other recogniser is bound"
    if top is None:
        why = "Treat the faces as recognisable until you know better."
        return Headline("none", f"{lead}, and no attack was scored.", why)
    return Headline(
        "none",
        f"{lead}: {describe_attacker(top)} {describe_rate(top, report)}, where guessing would name"
        f" {per_hundred(top.chance)}.",
        "Read the rates as what is possible at least. An attack that fails says nothing about the next one,"
        " so do not call these pictures anonymous on the strength of this page.",
    )


def _headline_stated_k(report: Report) -> Headline:
    """Return what measurement says of a k that somebody named; there is no certificate."""
    lead = f"This folder has no certificate; it is said to keep k = {report.certificate['k']}"
    bound = percent(report.certificate["bound"])
    why = "Nothing vouches for the files, so only measurement speaks."
    if top := _above_bound(report):
        says = (
            f"{lead}, and it does not: {describe_attacker(top)} {describe_rate(top)}, above the {bound}"
            " that k would allow."
        )
        return Headline("broken", says, why)
    if not report.results:
        return Headline("none", f"{lead}, and no attack was scored.", why)
    return Headline(
        "care",
        f"{lead}, and none of {_count_attacks(report)} {_caution_sentence(report)}named more than {bound}"
        " of people.",
        f"{why} The next recogniser may do better.{_undecided_sentence(report)}",
    )


def _headline_proved(report: Report) -> Headline:
    """k-anonymity of the files: a proof, with the attacks as a check on its assumptions."""
    k, bound = report.certificate["k"], percent(report.certificate["bound"])
    if top := _above_bound(report):
        return Headline(
            "broken",
            f"The promise did not hold: {describe_attacker(top)} {describe_rate(top)},"
            f" above the {percent(top.bound)} it allows.",
            "While the certificate's assumptions are true this cannot happen. So one of them is not true"
            " (most often one person was counted as two), or the attack saw only a part of the release."
            " Find out which before anything is published.",
        )
    if not people_counted(report):
        return Headline(
            "care",
            f"The files bear the promise out as far as files can: every published face occurs at least {k}"
            " times. That different people stand behind the copies was not checked.",
            "Only the private folder tells who is behind a face, so people were not counted"
            + ("." if report.results else ", and no attack could be scored."),
        )
    twice = [r for r in report.results if r.attack == "intersection" and r.verdict == "broken"]
    if twice:
        return Headline(
            "broken",
            "By itself this release keeps its promise, but not beside the second one:"
            f" {describe_attacker(twice[0])} {describe_rate(twice[0])}, above the {bound} allowed.",
            "The certificate assumes that no other release of these people is compared with this one.",
        )
    lead = f"at least {k} people stand behind every published face and the certificate verifies"
    if not _bounded_attacks(report):
        return Headline("held", f"The promise is verified: {lead}. No attack was scored.", _PROOF_SENTENCE)
    return Headline(
        "held",
        f"The promise held: {lead}, and none of {_count_attacks(report)} {_caution_sentence(report)}named"
        f" more than the {bound}"
        " of people that it allows.",
        _PROOF_SENTENCE + _undecided_sentence(report),
    )


_PROOF_SENTENCE = (
    "The proof is the reason, not the attacks that failed: the faces of one group are the same to the last"
    " byte, so nothing that is computed from them can tell its people apart."
)


def _headline_measured(report: Report) -> Headline:
    """k-anonymity of the codes: the pictures carry more than the codes, and only measurement speaks."""
    bound = percent(report.certificate["bound"])
    end = "The promise ends at the face code"
    more = "The pictures also carry something of the originals (hair, ears, light, background)."
    if top := _above_bound(report):
        return Headline(
            "broken",
            f"{end}; the pictures were measured, and {describe_attacker(top)} {describe_rate(top)},"
            f" above the {percent(top.bound)} that hold for the codes.",
            f"{more} Publish portraits if you need a promise about the files themselves.",
        )
    if not _bounded_attacks(report):
        return Headline("care", f"{end}, and what the pictures tell was not measured.", more)
    return Headline(
        "care",
        f"{end}; the pictures were measured, and none of {_count_attacks(report)}"
        f" {_caution_sentence(report)}named more than"
        f" {bound} of people.",
        f"{more} This is a measurement, not a proof: the next recogniser may do"
        f" better.{_undecided_sentence(report)}",
    )


def _bounded_attacks(report: Report) -> tuple[Result, ...]:
    """Return the attacks that the bound speaks of; with enough guesses anybody is right."""
    return tuple(r for r in report.results if r.bound < 1 and r.attack != "intersection")


def _count_attacks(report: Report) -> str:
    """Return how many attacks there were; each recogniser with each attack is one."""
    number = len(_bounded_attacks(report))
    return "the 1 attack we tried" if number == 1 else f"the {number} attacks we tried"


def _caution_sentence(report: Report) -> str:
    """Return a word of caution if some rate is above the bound and may be there by chance."""
    return "surely " if any(r.rank1 > r.bound + 1e-9 for r in _bounded_attacks(report)) else ""


def _undecided_sentence(report: Report) -> str:
    """Return a sentence on the attacks that the sample is too small to judge by measurement."""
    few = [r for r in _bounded_attacks(report) if r.verdict == "undecided"]
    if not few:
        return ""
    return (
        f" By measurement alone {len(few)} of {len(_bounded_attacks(report))} attacks stay undecided: with"
        f" {max(r.people for r in few)} people the interval reaches over the bound."
    )
