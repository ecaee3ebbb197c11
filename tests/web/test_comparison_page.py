"""The page of a comparison: all pairs, slices, the search of queries, and the way through them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

import assay.store
from assay import compare
from tests.web.samples import Client

THREE = "run=1&run=2&run=3"


def whole(client: Client, query: str) -> str:
    """The page with its statistics, for which JSON waits."""
    assert client(f"/compare.json?{query}").status == 200
    return client(f"/compare?{query}").text


def test_all_pairs_are_a_square_of_links(client: Client):
    page = whole(client, f"{THREE}&measure=AP")
    square = page.split('id="matrix"', 1)[1].split("</figure>", 1)[0]
    links = [unescape(link) for link in re.findall(r'<a href="([^"]+)"', square)]
    assert len(links) == 3
    found = client(f"/compare.json?{THREE}&measure=AP").json["comparison"]["measures"]["AP"]
    clear = sum(pair["outcome"] in ("better", "worse") for pair in found["pairs"])
    assert len(re.findall(r'<td class="[^"]*\bs\d"', square)) == 2 * clear
    for link in links:
        assert client(link).status == 200
        assert len(parse_qs(urlsplit(link).query)["run"]) == 2
    assert 'id="matrix"' not in whole(client, "run=1&run=2")
    assert 'id="matrix"' not in whole(client, f"{THREE}&baseline=1")


def test_bars_have_words_and_lead_to_their_queries(client: Client):
    page = whole(client, "run=1&run=2&measure=AP")
    chart = page.split('class="plot bars"', 1)[1].split("</div>", 1)[0]
    bars = re.findall(r'<a href="([^"]+)" tabindex="-1"><rect[^>]*><title>([^<]+)</title>', chart)
    rows = client("/compare.json?run=1&run=2&measure=AP").json["queries"]["rows"]
    values = {row["query"]: row["dense − lexical"] for row in rows}
    assert len(bars) == sum(value != 0 for value in values.values())
    for href, words in bars[:3]:
        query, _, difference = words.partition(": ")
        assert float(difference.replace("−", "-")) == pytest.approx(values[query], abs=5e-5)
        assert f"query={query}&" in unescape(href)
        assert client(unescape(href)).status == 200


def test_slices_are_those_of_the_library(demo: Path, client: Client):
    data = client(f"/compare.json?{THREE}&measure=AP&slice=kind").json
    with assay.store.open(demo) as store:
        runs = [store.run(i) for i in (1, 2, 3)]
        names = [run.name for run in runs]
        scores = [run.scores() for run in runs]
        expected = compare(*scores, names=names, measures=["AP"], slices="kind")
    assert data["comparison"] == expected.to_dict()
    page = unescape(client(f"/compare?{THREE}&measure=AP&slice=kind").text)
    for sentence in expected.slices.verdicts["AP"]:
        assert sentence in page
    assert "By kind" not in whole(client, f"{THREE}&measure=AP")
    assert "By kind" not in whole(client, f"{THREE}&measure=AP&slice=nothing")


@pytest.mark.parametrize("page", ["/compare", "/run/1"])
def test_queries_are_searched_by_id_and_text(client: Client, page: str):
    runs = "run=1&run=2&" if page == "/compare" else ""
    for words, expected in {
        "q07": ["q07"],
        "Q07 KNOWN": ["q07"],
        "what is known": 50,
        "q1": [f"q1{i}" for i in range(10)],
        "nothing at all": [],
        "q07 nothing": [],
    }.items():
        found = client(f"{page}.json?{runs}q={quote(words)}").json["queries"]
        ids = sorted(row["query"] for row in found["rows"])
        assert found["total"] == (expected if isinstance(expected, int) else len(expected)), words
        assert isinstance(expected, int) or ids == expected, words
    text = client(f"{page}?{runs}q=q07").text
    assert "1 found" in text
    lines = client(f"{page}.csv?{runs}table=queries&q=q1").text.strip().splitlines()
    assert len(lines) == 11


@pytest.mark.parametrize("start", ["/compare?run=1&run=2&measure=AP&q=q1", "/run/1?sort=AP&q=q1"])
def test_next_and_previous_follow_the_list_that_led_there(client: Client, start: str):
    path, _, query = start.partition("?")
    rows = client(f"{path}.json?{query}").json["queries"]["rows"]
    expected = [row["query"] for row in rows]
    assert expected != sorted(expected)
    table = client(start).text.split('id="queries"', 1)[1]
    href = unescape(re.search(r'<td class="name[^"]*"><a href="([^"]+)"', table).group(1))
    walked = []
    while href:
        page = client(href).text
        walked.append(unescape(re.search(r"<h1>Query ([^<]+)</h1>", page).group(1)))
        assert f"{len(walked)} of {len(expected)}" in page
        after = re.search(r'<a href="([^"]+)" rel="next">', page)
        href = unescape(after.group(1)) if after else ""
    assert walked == expected
    back = unescape(re.search(r'<a href="([^"]+)">the (?:run|comparison)</a>', page).group(1))
    assert "q=q1" in back
    assert client(back).status == 200


def test_without_a_list_queries_follow_their_ids(client: Client):
    page = client("/query?run=1&run=2&query=q07").text
    assert re.search(r'query=q06[^"]*" rel="prev"', page)
    assert re.search(r'query=q08[^"]*" rel="next"', page)
    assert "8 of 50" in page


def test_means_of_other_measures_are_bold_where_they_are_highest(client: Client):
    page = whole(client, f"{THREE}&measure=AP")
    figure = page.split('id="measures"', 1)[1].split("</figure>", 1)[0]
    head, *rows = figure.split("<tr>")[1:]
    measures = [re.sub("<[^>]+>", "", cell).strip() for cell in head.split("</th>")][1:-1]
    bold = [[("<strong>" in cell) for cell in row.split("<td")[1:]] for row in rows]
    for place, measure in enumerate(measures):
        assert any(row[-len(measures) :][place] for row in bold), measure


def test_the_first_pair_of_queries_differs(tmp_path: Path, demo: Path):
    with assay.store.open(demo) as store:
        dense, lexical = (store.run(i).scores() for i in (1, 2))
    with assay.store.open(tmp_path / "same.db") as store:
        for name, scores in (("a", dense), ("copy", dense), ("b", lexical)):
            store.save(scores, name, dataset="d")
    assert "a − b: better on" in whole(Client(tmp_path / "same.db"), f"{THREE}&measure=AP")
