"""State what the figures of an audit mean, in sentences that are true for every kind of release."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ksame.attack.recognisers import ATTACKERS
from ksame.attack.score import AttackResult
from ksame.audit.report.result import VIDEO_SUFFIX, Report
from ksame.core.text import shorten

HeadlineStatus = Literal["held", "care", "broken", "none"]
LABELS: dict[HeadlineStatus, str] = {
    "held": "✓ Promise held",
    "care": "! Read with care",
    "broken": "✗ Do not rely on it",
    "none": "○ No bound promised",
}

_ATTACKS = {
    "naive": "searching known photos for released faces",
    "naive, other moment": "searching other moments of the originals for released faces",
    "naive, other photo": "searching other photos of the same people for released faces",
    "reverse": "searching the released faces for known photos",
    "parrot": "de-identifying known photos alike and searching them for released faces",
    "parrot, other photo": "de-identifying other photos alike and searching them for released faces",
    "automatic parrot": "estimating the blur or the blocks and imitating it on known photos",
    "enhancement": "sharpening released faces before comparing them",
    "background": "comparing everything except the face",
    "crop200": "comparing crops with some of the surroundings",
    "crop300": "comparing crops with much of the surroundings",
    "reconstruction": "estimating the swap of faces and undoing it",
    "intersection": "comparing two releases of the same people",
    "group": "naming as many people as share a face",
}


class Headline(NamedTuple):
    """Whether the promise held: one sentence that is true on its own, and the reason."""

    status: HeadlineStatus
    sentence: str
    why: str


def percent(share: float) -> str:
    """Return a share in per cent with at most one decimal; a small share is not shown as none.

    >>> percent(0.2), percent(0.1667), percent(0.0098), percent(0.0001), percent(0)
    ('20 %', '16.7 %', '1 %', 'under 0.1 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{100 * share:.1f}".removesuffix(".0") + " %"


def per_hundred(share: float) -> str:
    """Return a share as a number of 100 people; few is not none, and nearly all is not all.

    >>> per_hundred(0.163), per_hundred(0.002), per_hundred(0), per_hundred(0.998)
    ('16', 'fewer than 1', '0', 'more than 99')
    """
    number = round(100 * share)
    if number == 0 and share > 0:
        return "fewer than 1"
    return "more than 99" if number == 100 and share < 1 else str(number)


def recogniser_name(name: str) -> str:
    """Return a recogniser's name as its authors write it."""
    title = ATTACKERS[name].title if name in ATTACKERS else ""
    return title or shorten(name)  # the name of the user's own file may hold anything


def describe_attack(name: str) -> str:
    """Return what an attack does, in words.

    >>> describe_attack("reverse"), describe_attack("brute force")
    ('searching the released faces for known photos', 'with the attack "brute force"')
    """
    plain = name.removesuffix(VIDEO_SUFFIX).replace("_", " ").replace("-", " ")
    return _ATTACKS.get(plain, f'with the attack "{name}"')


def describe_attacker(result: AttackResult) -> str:
    """Return who attacked and how, as the subject of a sentence."""
    if result.attack == "intersection":  # needs no recogniser
        return "an attacker who compares two releases of the same people"
    return f"{recogniser_name(result.recogniser)}, {describe_attack(result.attack)},"


def is_group(result: AttackResult) -> bool:
    """Return whether an attack names several people at once: its rate is not that of naming one."""
    return result.attack.startswith("group")


def most_successful(results: tuple[AttackResult, ...]) -> AttackResult | None:
    """Return the attack whose interval starts highest; naming a person comes before naming a group."""
    return max(results, key=lambda r: (not is_group(r), r.low, r.rank1), default=None)


def describe_rate(result: AttackResult, report: Report | None = None) -> str:
    """Return how many people an attack named, with its interval; of a video, how many faces."""
    what = "faces" if report is not None and report.videos else "people"
    rates = (
        f"{per_hundred(result.rank1)} of 100 {what} ({per_hundred(result.low)} to {per_hundred(result.high)})"
    )
    verb = "had the right person among several names for" if is_group(result) else "correctly named"
    return f"{verb} {rates}"


def describe_strongest(report: Report) -> str:
    """Return the strongest attack in one sentence: its rate, that of guessing, and the bound."""
    result = most_successful(report.results)
    if result is None:
        return "No attack was scored."
    allowed = "no bound was promised"
    if covers_files(report):
        allowed = f"the promised bound is {per_hundred(result.bound)}"
    elif result.bound < 1:  # of codes, or stated by the user
        allowed = f"the bound is {per_hundred(result.bound)}"
    return (
        f"The strongest attack tried, {describe_attacker(result)} {describe_rate(result, report)};"
        f" random guessing would name {per_hundred(result.chance)}; {allowed}."
    )


def make_headline(report: Report) -> Headline:
    """Return whether the promise held, in a sentence that is true for any result.

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
    leak = f"a second detector still finds {faces} that {'was' if left == 1 else 'were'} not replaced"
    if report.videos:
        compared = sum(video.compared for video in report.videos)
        leak = f"{faces} can still be seen in the {compared} frames that were compared"
    sentence = f"{found.sentence} However, {leak}."
    return Headline("care" if found.status == "held" else found.status, sentence, found.why)


def _headline(report: Report) -> Headline:
    if report.broken and report.certificate and "files" not in report.certificate:
        return Headline(
            "broken",
            f"This folder should have k = {report.certificate['k']}, and it does not: {report.broken}",
            "There is no certificate, so the files themselves were counted. k people must share each image,"
            " to the last byte.",
        )
    if report.broken:
        return Headline(
            "broken",
            f"The certificate does not verify: {report.broken}",
            "Do not rely on anything it states. Get the release again from its publisher, and compare the"
            " digest. The measurements here are of the files as they are now.",
        )
    if not is_k_anonymous(report):
        return (
            _headline_stated_k(report)
            if report.certificate.get("bound", 1) < 1
            else _headline_unpromised(report)
        )
    return _headline_proved(report) if covers_files(report) else _headline_measured(report)


def is_k_anonymous(report: Report) -> bool:
    """Return whether a certificate that verifies promises a bound."""
    return not report.broken and str(report.certificate.get("kind", "none")).startswith("k-anonymity")


def covers_files(report: Report) -> bool:
    """Return whether the promised bound covers the files, and not the codes alone."""
    return is_k_anonymous(report) and report.certificate.get("scope") == "file"


def people_counted(report: Report) -> bool:
    """Return whether verify counted the people behind each face, which needs the private folder."""
    return not any(what.startswith("how many people") for what in report.unchecked)


def _above_bound(report: Report) -> AttackResult | None:
    """Return the strongest attack whose interval is above the bound; no promise covers a second release."""
    return most_successful(
        tuple(r for r in report.results if r.verdict == "broken" and r.attack != "intersection")
    )


def _headline_unpromised(report: Report) -> Headline:
    """Return the headline without a bound (no certificate, no guarantee, wrong-map alone): only the rates."""
    top = most_successful(report.results)
    lead = "Nothing is promised about recognition"
    if not report.certificate:
        lead = "This folder has no certificate, so nothing is promised"
    elif report.certificate.get("kind") == "wrong-map":
        lead = "The only promise covers the program's own codes (wrong-map), and no other recogniser"
    if top is None:
        why = "Treat the faces as recognisable until this is measured."
        return Headline("none", f"{lead}, and no attack was scored.", why)
    return Headline(
        "none",
        f"{lead}: {describe_attacker(top)} {describe_rate(top, report)}, where random guessing would name"
        f" {per_hundred(top.chance)}.",
        "The rates are lower limits: a better attack may exist. An attack that fails says nothing about the"
        " next one, so this report does not show that these images are anonymous.",
    )


def _headline_stated_k(report: Report) -> Headline:
    """Return the headline of a k that the user stated: a measurement, because there is no certificate."""
    lead = f"This folder has no certificate; it should have k = {report.certificate['k']}"
    bound = percent(report.certificate["bound"])
    why = "Nothing vouches for the files, so this is a measurement only."
    if top := _above_bound(report):
        finding = f"{describe_attacker(top)} {describe_rate(top)}, above the bound of {bound}"
        return Headline("broken", f"{lead}, and it does not: {finding}.", why)
    if not report.results:
        return Headline("none", f"{lead}, and no attack was scored.", why)
    return Headline(
        "care",
        f"{lead}, and none of {_count_attacks(report)} {_significance(report)}named more than {bound}"
        " of people.",
        f"{why} The next recogniser may be better.{_undecided_sentence(report)}",
    )


def _headline_proved(report: Report) -> Headline:
    """Return the headline for k-anonymity of the files: a proof, whose assumptions the attacks check."""
    k, bound = report.certificate["k"], percent(report.certificate["bound"])
    if top := _above_bound(report):
        return Headline(
            "broken",
            f"The promise did not hold: {describe_attacker(top)} {describe_rate(top)},"
            f" above the bound of {percent(top.bound)}.",
            "This cannot happen while the certificate's assumptions are true. So one of them is wrong (most"
            " often one person was counted as two), or the attack covered only a part of the release. Find"
            " out which before you publish anything.",
        )
    if not people_counted(report):
        return Headline(
            "care",
            f"As far as the files show, the promise holds: every published face occurs at least {k} times."
            " That different people are behind the copies was not checked.",
            "Only the private folder lists the people behind a face, so they were not counted"
            + ("." if report.results else ", and no attack could be scored."),
        )
    twice = [r for r in report.results if r.attack == "intersection" and r.verdict == "broken"]
    if twice:
        return Headline(
            "broken",
            "Alone, this release keeps its promise, but not together with the second one:"
            f" {describe_attacker(twice[0])} {describe_rate(twice[0])}, above the bound of {bound}.",
            "The certificate assumes that no other release of these people is compared with this one.",
        )
    lead = f"at least {k} people are behind every published face and the certificate verifies"
    if not _bounded_attacks(report):
        return Headline("held", f"The promise is verified: {lead}. No attack was scored.", _PROOF_SENTENCE)
    return Headline(
        "held",
        f"The promise held: {lead}, and none of {_count_attacks(report)} {_significance(report)}named"
        f" more than the promised {bound} of people.",
        _PROOF_SENTENCE + _undecided_sentence(report),
    )


_PROOF_SENTENCE = (
    "The reason is the proof, not the attacks that failed: the faces of one group are equal to the last"
    " byte, so nothing that is computed from them can distinguish its people."
)


def _headline_measured(report: Report) -> Headline:
    """Return the headline for k-anonymity of the codes: the images hold more, which is only measured."""
    bound = percent(report.certificate["bound"])
    lead = "The promise covers the face codes only"
    more = "The images also show parts of the originals (hair, ears, light, background)."
    if top := _above_bound(report):
        return Headline(
            "broken",
            f"{lead}; the images were measured, and {describe_attacker(top)} {describe_rate(top)},"
            f" above the bound of {percent(top.bound)} on the codes.",
            f"{more} Publish portraits if you need a promise that covers the files.",
        )
    if not _bounded_attacks(report):
        return Headline("care", f"{lead}, and what the images reveal was not measured.", more)
    return Headline(
        "care",
        f"{lead}; the images were measured, and none of {_count_attacks(report)}"
        f" {_significance(report)}named more than {bound} of people.",
        f"{more} This is a measurement, not a proof: the next recogniser may be"
        f" better.{_undecided_sentence(report)}",
    )


def _bounded_attacks(report: Report) -> tuple[AttackResult, ...]:
    """Return the attacks that the bound covers; with enough guesses, any attacker is right."""
    return tuple(r for r in report.results if r.bound < 1 and r.attack != "intersection")


def _count_attacks(report: Report) -> str:
    """Return how many attacks there were; each recogniser with each attack is one."""
    number = len(_bounded_attacks(report))
    return "the 1 attack tried" if number == 1 else f"the {number} attacks tried"


def _significance(report: Report) -> str:
    """Return an adverb if some rate is above the bound, but not significantly."""
    return "significantly " if any(r.rank1 > r.bound + 1e-9 for r in _bounded_attacks(report)) else ""


def _undecided_sentence(report: Report) -> str:
    """Return a sentence on the attacks for which the sample is too small."""
    few = [r for r in _bounded_attacks(report) if r.verdict == "undecided"]
    if not few:
        return ""
    return (
        f" By measurement alone {len(few)} of {len(_bounded_attacks(report))} attacks are undecided: with"
        f" {max(r.people for r in few)} people the interval includes the bound."
    )
