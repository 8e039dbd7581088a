"""The page of ``ksame tune``: what was found over k, for somebody who must choose one."""

from __future__ import annotations

import base64

from ksame.audit.report.page import template
from ksame.audit.report.wording import percent, recogniser_name
from ksame.audit.tune import charts
from ksame.audit.tune.recommend import dendrogram_cuts, within_budget
from ksame.audit.tune.result import TuningResult


def page(tuning: TuningResult) -> str:
    """Return a tuning as one HTML page, which needs nothing else."""
    table = tuning.table.assign(safe=within_budget(tuning.table, tuning.risk))
    chosen = tuning.recommended
    table["best"] = [(row.method, row.k) == chosen for row in table.itertuples()]
    methods = list(dict.fromkeys(table["method"]))
    alike_of = chosen[0] if chosen else methods[0]
    of_one = table[table["method"] == alike_of]
    low, high = dendrogram_cuts(tuning.tree)
    return template("ksame.audit.tune").render(
        t=tuning,
        methods=methods,
        recogniser=recogniser_name(tuning.recogniser),
        shown=sorted({k for _, k in tuning.strip}),
        rows=table.to_dict("records"),
        risk=charts.risk(table, tuning.risk),
        loss=charts.loss(table, chosen),
        likeness=charts.likeness(of_one) if of_one["alike"].notna().any() else "",
        alike_of=alike_of,
        tree=charts.tree(tuning.tree),
        tree_says=(
            f"Half of the people have somebody near in groups of about {low.size}, nine in ten in groups of"
            f" about {high.size}."
        ),
        png=lambda data: "data:image/png;base64," + base64.b64encode(data).decode("ascii"),
        percent=lambda share: "" if share != share else percent(share),
        number=lambda value: "" if value != value else f"{value:.2f}",
    )
