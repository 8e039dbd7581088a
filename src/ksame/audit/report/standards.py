"""What the evidence says in the terms of WP216 and ISO/IEC 20889."""

from __future__ import annotations

from typing import NamedTuple

from ksame.audit.report.result import Report
from ksame.audit.report.wording import covers_files, describe_rate, k_anonymous, most_successful


class Finding(NamedTuple):
    """A term of a standard, what it asks, and what the evidence says for this release."""

    term: str
    asks: str
    says: str


def wp216(report: Report) -> tuple[Finding, ...]:
    """Return the three questions of WP216 with what the evidence says for this release."""
    k = report.certificate.get("k")
    proved = covers_files(report)
    top = most_successful(report.results)
    if proved:
        single = (
            f"Each published face is shared by at least {k} people, to the last byte: it singles out a group,"
            " not a person. WP216 counts k-anonymity as an answer to singling out, and to this one only."
        )
    else:
        single = (
            "Not prevented: each published picture is made from one person's photo and differs from the"
            " others. How often it led to the person is measured, not bounded."
        )
    rate = f"In the best attack a program {describe_rate(top, report)}." if top else "It was not scored."
    same = " Photos of one person share one face, so they can be linked to their group." if proved else ""
    apart = report.certificate.get("select")
    told = f" Groups were kept apart by {apart}, so that is told of every member." if apart else ""
    return (
        Finding("Singling out", "Can one person's record be picked out?", single),
        Finding(
            "Linkability",
            "Can records of one person be linked, here or with other data?",
            f"{rate}{same} A second release of the same people, and tables published beside the pictures,"
            " are not covered.",
        ),
        Finding(
            "Inference",
            "Can something be deduced about a person?",
            "Not prevented. What the members of a group share (apparent gender, age, skin tone, expression)"
            f" can be read from the face.{told} Whoever knows that a person is in a group knows what all in"
            " it have in common.",
        ),
    )


def iso20889(report: Report) -> tuple[Finding, ...]:
    """Return the terms of ISO/IEC 20889:2018 for this release; they classify, and certify nothing."""
    certificate = report.certificate
    bounded = k_anonymous(report)
    technique = (
        "Microaggregation, which the standard lists under randomization techniques: the faces of a group are"
        " replaced by one that is computed from the faces of a group."
        if bounded
        else "The face is altered or masked; no group shares it. Treat it as masking or randomization, as the"
        " method does."
    )
    where = "the face" if covers_files(report) else "the face code; the pictures are outside the model"
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
            "Not kept: a published face is nobody's."
            if bounded
            else "Kept in part: each picture is still made from its own person's photo.",
        ),
        Finding(
            "Re-identification attack",
            "Who is the attacker?",
            "One who knows who is in the data and holds photos of everybody in it: the worst case."
            if report.results
            else "Not scored.",
        ),
    )
