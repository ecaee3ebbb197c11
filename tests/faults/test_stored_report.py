"""Reports on stored runs: hostile words in every field of a run stay text."""

from __future__ import annotations

import assay.store
from assay import evaluate
from assay.report import make_report
from tests.store.places import HOSTILE


def test_hostile_words_in_every_field_of_stored_runs(tmp_path):
    names = ["".join(filter(str.isprintable, text)).replace(" ", "_") for text in HOSTILE]
    qrels = {f"q{number}{name[:40]}": {"a": 1} for number, name in enumerate(names)}
    scores = evaluate({q: {"a": 2.0, "b": 1.0} for q in qrels}, qrels, ["RR", "nDCG@10", "nDCG@5"])
    evil = "</script><script>alert(1)</script><!-- {{7*7}} \u2028 javascript:"
    with assay.store.open(tmp_path / "s.db") as store:
        for name in (*HOSTILE[:4], evil):
            store.save(
                scores.with_groups(**{evil: dict.fromkeys(qrels, evil)}),
                name,
                dataset=name,
                model=evil,
                tags=[evil],
                notes=evil,
                command=["eval", evil],
                data={evil: {"sha256": evil}},
                config={evil: evil},
            )
        report = make_report(store.runs(), resamples=200)
        page = report.save(tmp_path / "r.html").read_text()
        assert "<script>alert" not in page
        assert page.count("<script") == page.count("</script>") == 2  # the data and our own script
        assert "<!-- " not in page
        assert "\u2028" not in page
        assert "datasets" in report.remarks[0]
        for ending in (".md", ".tex"):
            text = report.save(tmp_path / f"r{ending}").read_text()
            assert "\x1b" not in text
            assert "\x00" not in text
