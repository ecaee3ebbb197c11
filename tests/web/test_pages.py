"""What the pages say is what the store and the library say, in HTML, JSON and CSV alike."""

from __future__ import annotations

import csv
import io
import re
import time
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import assay.store
from assay import compare
from assay.store import OpenRun, RunRecord
from tests.comparison.made_scores import made_scores
from tests.store.private_postgres import new_database
from tests.web.samples import Client, save_demo

PAGES = (
    "/",
    "/runs",
    "/runs?group=dataset",
    "/diff?run=1&run=2&show=all",
    "/leaderboard?dataset=demo",
    "/run/1",
    "/compare?run=1&run=2",
    "/query?run=1&run=2&query=q07",
    "/trends?dataset=cranfield",
)


def twin(address: str, ending: str) -> str:
    path, _, query = address.partition("?")
    return f"{'/home' if path == '/' else path}{ending}?{query}"


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def shown_rows(page: str, table: str) -> list[list[str]]:
    """The cells of a table of a page, without boxes and pictures."""
    figure = re.search(rf'<figure class="table" id="{table}">(.*?)</figure>', page, re.S).group(1)
    body = re.search(r"<tbody>(.*?)</tbody>", figure, re.S).group(1)
    cells = [
        re.findall(
            r'<td(?: class="(?!pick|picture)[^"]*")?(?: title="[^"]*")?>(.*?)</td>', row, re.S
        )
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)
    ]
    return [[unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in cells]


def test_every_page_has_a_template_of_its_name():
    from importlib.resources import files

    from assay.web.pages import page_routes

    package = files("assay.web")
    routes = page_routes()
    assert [one.menu for one in routes if one.menu] == ["Runs", "Leaderboard", "Compare", "Trends"]
    for route in routes:
        name = route.path.strip("/").partition("/")[0] or "home"
        assert (package / "templates" / f"{name}.html").is_file()


@pytest.mark.parametrize("address", PAGES)
def test_every_page_has_a_twin_in_json_and_its_tables_in_csv(client: Client, address: str):
    page = client(address)
    assert page.status == 200, page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    data = client(twin(address, ".json"))
    assert data.headers["content-type"] == "application/json"
    assert data.json["schema_version"] == 1
    links = re.findall(r'<a href="([^"]+\.csv[^"]*)"', page.text)
    assert links
    for link in map(unescape, links):
        table = client(link)
        assert table.status == 200, table.text
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        assert len({len(row) for row in rows_of(table.text)}) == 1
    twins = re.search(r'<a href="([^"]+\.json[^"]*)"', page.text).group(1)
    assert unescape(twins) == twin(address, ".json").rstrip("?")


@pytest.mark.parametrize("address", PAGES)
def test_every_number_of_a_page_is_that_of_its_csv(client: Client, address: str):
    """Rounded to the digits that are shown; a column that only one of them has does not count."""
    client(twin(address, ".json"))  # waits for statistics, which the page then has
    page, compared = client(address).text, 0
    for table in re.findall(r'<figure class="table" id="([^"]+)">', page):
        figure = page.split(f'id="{table}">', 1)[1].split("</figure>", 1)[0]
        link = unescape(re.search(r'<a href="([^"]+\.csv[^"]*)"', figure).group(1))
        head, *rows = rows_of(client(link).text)
        ths = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', figure)
        heads = [unescape(re.sub("<[^>]+>", "", th)) for th in ths]
        for shown, exact in zip(shown_rows(page, table), rows, strict=True):
            if len(shown) == len(head):
                pairs = list(zip(shown, exact, strict=True))
            else:  # a short form of the table: the columns that both have
                cells = zip(heads, shown, strict=True)
                pairs = [(cell, exact[head.index(name)]) for name, cell in cells if name in head]
            for cell, value in pairs:
                if re.fullmatch(r"[+-]?[\d,]+(\.\d+)?", cell):
                    digits = len(cell.partition(".")[2])
                    close = abs(float(cell.replace(",", "")) - float(value))
                    assert close <= 0.5000001 * 10**-digits, (table, cell, value)
                    compared += 1
    assert compared


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.found += [value for key, value in attributes if key in ("href", "src", "action")]


def test_every_link_leads_somewhere(client: Client):
    seen: set[str] = set()
    new = ["/"]
    while new and len(seen) < 150:
        address = new.pop(0)
        seen.add(address)
        answer = client(address)
        assert answer.status in (200, 303), (address, answer.text[:300])
        if answer.status == 303:
            new.append(answer.headers["location"])
        if "html" in answer.headers.get("content-type", ""):
            links = Links()
            links.feed(answer.text)
            inside = [link.partition("#")[0] for link in links.found]
            assert all(link.startswith("/") for link in inside if link), inside
            new += [
                link
                for link in dict.fromkeys(inside)
                if link and link not in seen and link not in new
            ]
    assert len(seen) == 150


def test_runs_are_filtered_sorted_and_paged_as_the_store_says(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        rng = np.random.default_rng(0)
        for i in range(7):
            scores = made_scores(i, skill=float(rng.random()), n=8)
            store.save(
                scores,
                f"name {i % 3}",
                dataset=["a", "b"][i % 2],
                tags=[f"t{i % 2}"],
                model=f"m{6 - i}",
            )
        store.save(None, "bare")
        for i in range(60):
            store.begin(RunRecord(f"waiting {i}", dataset="many"))
        everything = store.runs()
    client = Client(tmp_path / "s.db")
    data = client("/runs.json").json
    assert data["total"] == 68
    assert [row["id"] for row in data["runs"]] == [run.id for run in everything][:50]
    second = client("/runs.json?page=2").json
    assert [row["id"] for row in second["runs"]] == [run.id for run in everything][50:]
    assert client("/runs.json?page=99").json["number"] == 2
    assert len(rows_of(client("/runs.csv").text)) == 69
    means = {run.id: run.means().get("nDCG@10") for run in everything}
    found = client("/runs.json?measure=nDCG%4010&sort=value").json["runs"]
    assert [means[row["id"]] for row in found] == sorted(
        (v for v in means.values() if v is not None), reverse=True
    )
    found = client("/runs.json?status=finished&sort=name&order=up").json["runs"]
    names = [row["name"] for row in found]
    assert names == sorted(names)
    assert len(names) == 8
    for query, expected in {
        "dataset=a": 4,
        "tag=t1": 3,
        "model=m6": 1,
        "status=running": 60,
        "named_like=NAME": 7,
        "named_like=%25": 0,
        "measure=ndcg_cut_10": 7,
        "dataset=a&tag=t1": 0,
        "since=2999-01-01": 0,
        "until=2999-01-01": 68,
        "dataset=none": 0,
    }.items():
        assert client(f"/runs.json?{query}").json["total"] == expected, query
    assert "No run matches these filters" in client("/runs?dataset=none").text


@pytest.mark.parametrize(
    "wrong",
    [
        "page=0",
        "page=x",
        "page=1e9",
        "page=²",
        "sort=password",
        "order=sideways",
        "since=yesterday",
        "named_like=%FF",
        "&".join(["tag=x"] * 300),
    ],
)
def test_invalid_parameters_are_refused(client: Client, wrong: str):
    answer = client(f"/runs?{wrong}")
    assert answer.status == 400
    assert "Invalid request" in answer.text
    assert client(f"/runs.json?{wrong}").json["error"]


def test_leaderboard_is_that_of_the_store_with_group_letters_of_the_library(demo, client: Client):
    data = client("/leaderboard.json?dataset=demo&measure=AP").json
    with assay.store.open(demo) as store:
        runs = {run.name: run for run in store.runs(dataset="demo", status="finished")}
        expected = sorted(runs.values(), key=lambda run: -run.means()["AP"])
        found = compare(
            *(run.scores() for run in expected),
            measures=["AP"],
            names=[run.name for run in expected],
        )
    assert [row["id"] for row in data["runs"]] == [run.id for run in expected]
    for row, run, standing in zip(data["runs"], expected, found.standings, strict=True):
        one = run.aggregate("AP")
        assert (row["value"], row["low"], row["high"]) == (one.value, one.low, one.high)
        assert row["chance"] == one.chance
        assert row["letters"] == standing.letters
    page = client("/leaderboard?dataset=demo&measure=AP").text
    rows = shown_rows(page, "leaderboard")
    assert [row[:2] for row in rows] == [[str(i), run.name] for i, run in enumerate(expected, 1)]
    best = expected[0].aggregate("AP")
    assert rows[0][2] == f"{best.value:.4f}"  # beside the name, as phones need it
    assert rows[0][3] == f"[{best.low:.4f}, {best.high:.4f}]"


def test_leaderboard_takes_the_newest_run_of_a_name_or_all(client: Client):
    newest = client("/leaderboard.json?dataset=cranfield").json
    assert [row["id"] for row in newest["runs"]] == [9]
    everything = client("/leaderboard.json?dataset=cranfield&of=all").json
    assert len(everything["runs"]) == 6
    means = [row["value"] for row in everything["runs"]]
    assert means == sorted(means, reverse=True)


def test_a_leaderboard_of_other_queries_says_so(tmp_path):
    with assay.store.open(tmp_path / "runs.db") as store:
        for name, dataset, n in (("a", "x", 4), ("b", "x", 4), ("a", "y", 4), ("easy", "y", 3)):
            run = {f"q{q}": {"d1": 1.0, "d2": 0.5} for q in range(n)}
            scores = assay.evaluate(run, {query: {"d2": 1} for query in run}, "RR")
            store.save(RunRecord(name, scores, dataset=dataset))
    get = Client(tmp_path / "runs.db")
    assert get("/leaderboard.json?dataset=y").json["query_sets"] == 2
    assert "2 different sets of queries" in get("/leaderboard?dataset=y").text
    assert get("/leaderboard.json?dataset=x").json["query_sets"] == 1
    assert "sets of queries" not in get("/leaderboard?dataset=x").text


def test_run_page_has_its_numbers_groups_and_queries(demo, client: Client):
    with assay.store.open(demo) as store:
        run = store.run(1)
        scores = run.scores()
    page = client("/run/1")
    for one in run.aggregates:
        assert f"{one.value:.4f}" in page.text
    assert "assay eval dense.run -r qrels.txt" in page.text
    assert run.signature in unescape(page.text.replace("<wbr>", ""))
    assert "before the new tokeniser" in page.text
    data = client("/run/1.json").json
    groups = {row["kind"]: row["nDCG@10"] for row in data["groups"]}
    expected = scores.mean(by="kind").groups
    assert groups == {name: means["nDCG@10"] for name, means in expected.items()}
    queries = client("/run/1.json?sort=AP").json["queries"]
    values = [row["AP"] for row in queries["rows"]]
    assert values == sorted(scores["AP"].tolist(), reverse=True)[:50]
    table = rows_of(client("/run/1.csv?table=queries").text)
    assert [float(row[1]) for row in table[1:]] == scores["nDCG@10"].tolist()
    assert client(f"/run/{run.uid[:10]}").status == 200


def test_the_size_of_every_file_is_shown(tmp_path):
    """By the keys under which a store keeps fingerprints."""
    (tmp_path / "qrels.txt").write_text("x" * 1234)
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(made_scores(1), "a", files=[str(tmp_path / "qrels.txt")])
    page = Client(tmp_path / "s.db")("/run/1")
    assert "1,234 bytes, sha256 " in page.text


def test_running_and_failed_runs_say_so(demo, client: Client):
    data = client("/run/10.json").json["run"]
    assert (data["status"], data["done"], data["total"]) == ("running", 37, 100)
    page = client("/run/10").text
    assert '<progress max="100" value="37">' in page
    assert 'data-live="/run/10.json"' in page
    assert "ValueError: no such index" in client("/run/11").text
    assert "running 37 %" in client("/runs").text
    with assay.store.open(demo) as store:
        OpenRun(store, 10).progress(38, 100)
    assert client("/run/10.json").json["run"]["done"] == 38
    with assay.store.open(demo) as store:
        OpenRun(store, 10).progress(37, 100)


def test_comparison_is_that_of_the_library(demo, client: Client):
    data = client("/compare.json?run=1&run=2&run=3&measure=AP").json
    with assay.store.open(demo) as store:
        runs = [store.run(i) for i in (1, 2, 3)]
        expected = compare(
            *(run.scores() for run in runs), names=[run.name for run in runs], measures=["AP"]
        )
    assert data["comparison"] == expected.to_dict()
    page = client("/compare?run=1&run=2&run=3&measure=AP").text
    verdict = expected.blocks[0].verdict
    said, numbers = verdict.headline, verdict.numbers
    assert f"<p>{said}.</p><small>{numbers}</small>" in unescape(page)
    best, second = (one.name for one in expected.standings[:2])
    differences = expected.differences("AP", best, second)
    assert [row["query"] for row in data["queries"]["rows"]] == [
        row.query for row in differences.rows
    ]
    based = client("/compare.json?run=1&run=2&run=3&measure=AP&baseline=2").json
    assert based["comparison"]["baseline"] == "lexical"
    table = rows_of(client("/compare.csv?run=1&run=2&table=pairs").text)
    assert "p_uncorrected" in table[0]


def test_comparisons_that_cannot_be_are_explained(client: Client, tmp_path):
    assert "Select two or more runs" in client("/compare").text
    assert "needs two" in client("/compare?run=1&run=1").text
    assert client("/compare?run=1&run=99").status == 404
    waiting = client("/compare?run=1&run=10")
    assert waiting.status == 400
    assert "no measure in common" in waiting.text
    other = client("/compare?run=1&run=9")
    assert other.status == 400
    assert "Mismatch" not in other.text
    assert client("/compare?run=1&run=2&baseline=3").status == 400
    assert client("/compare?run=1&run=2&baseline=zzz").status == 404


def test_a_page_does_not_wait_for_long_statistics(demo, monkeypatch):
    import threading

    from assay.web import caches

    done = threading.Event()
    real = caches.compare

    def slow(*arguments, **named):
        assert done.wait(60)
        return real(*arguments, **named)

    monkeypatch.setattr(caches, "compare", slow)
    client = Client(demo)
    page = client("/compare?run=1&run=2")
    assert page.status == 200
    assert "The comparison is being computed" in page.text
    assert '<meta http-equiv="refresh" content="1">' in page.text
    monkeypatch.setattr(caches, "monotonic", lambda: time.monotonic() + 30)
    assert '<meta http-equiv="refresh" content="10">' in client("/compare?run=1&run=2").text
    board = client("/leaderboard?dataset=demo").text
    assert "Groups are being computed" in board
    done.set()
    assert client("/compare.json?run=1&run=2").json["comparison"]["systems"] == ["dense", "lexical"]
    page = client("/compare?run=1&run=2").text
    assert "is better than" in page or "scores highest on" in page
    assert "refresh" not in page


def test_one_query_shows_what_each_run_retrieved(demo, client: Client):
    data = client("/query.json?run=1&run=2&run=3&query=q07").json
    with assay.store.open(demo) as store:
        shown = [store.run(i).results("q07") for i in (1, 2, 3)]
        value = store.run(2).scores()["AP"][7]
    assert data["text"] == shown[0].text
    assert data["values"][1]["AP"] == value
    assert [one["stored"] for one in data["retrieved"]] == [True, True, False]
    lists = [[doc.doc for doc in one.results] for one in shown[:2]]
    for own, other, column in zip(lists, lists[::-1], data["retrieved"], strict=False):
        assert [one["doc"] for one in column["results"]] == own
        assert [one["only_here"] for one in column["results"]] == [doc not in other for doc in own]
    page = client("/query?run=1&run=2&run=3&query=q07").text
    assert "only here" in page
    assert "relevant (" in page
    assert "Relevant but not retrieved" in page
    assert "This run has no stored results" in page
    assert client("/query?run=9&query=q007").status == 200
    assert "has no stored texts" in client("/query?run=9&query=q007").text


@pytest.mark.parametrize(
    "address",
    [
        "/query?run=1&query=nothing",
        "/query?run=1&query=%20",
        "/run/99",
        "/run/abc",
        "/run/0",
        "/run/..%2fetc",
        "/run/99999999999999999999",
        "/leaderboard?dataset=none",
        "/nothing",
        "/runs/",
        "/static/none.js",
        "/run/",
        "/query?run=77&query=q07",
        "/trends?dataset=none",
    ],
)
def test_what_does_not_exist_is_a_404_with_a_way_back(client: Client, address: str):
    answer = client(address)
    assert answer.status == 404
    assert "ot found</h1>" in answer.text
    assert "Traceback" not in answer.text
    assert '<a href="/runs">' in answer.text


def test_lists_of_queries_show_their_texts(demo, client: Client):
    for address in ("/run/1", "/compare?run=3&run=1"):
        page = client(address).text
        assert '<span class="beside">what is known about q07, and since when</span>' in page
        data = client(twin(address, ".json")).json
        assert data["queries"]["texts"]["q07"] == "what is known about q07, and since when"
    assert "what is known" not in client("/run/3").text
    assert client("/run/3.json").json["queries"]["texts"] == {}


def test_sums_are_no_measures_to_compare(tmp_path):
    from assay import evaluate

    runs = [{f"q{i}": {"a": 2.0 - turn, "b": 1.0} for i in range(9)} for turn in (0, 2)]
    qrels = {f"q{i}": {"a": 1} for i in range(9)}
    with assay.store.open(tmp_path / "s.db") as store:
        for run in runs:
            store.save(evaluate(run, qrels, ["num_ret", "AP"]), "x", dataset="d")
    client = Client(tmp_path / "s.db")
    assert client("/compare.json?run=1&run=2").json["measures"] == ["AP"]
    assert "highest on" in client("/compare?run=1&run=2").text
    trend = client("/trends.json?measure=num_ret").json["runs"]
    assert trend[1]["change"]["words"] == "not tested"
    for address in ("/leaderboard?measure=num_ret", "/run/1?measure=num_ret&sort=num_ret"):
        assert client(address).status == 200


def test_integer_query_ids_are_found(tmp_path):
    from dataclasses import replace

    from assay import Ids

    scores = replace(made_scores(1, n=5), query_ids=Ids.of(np.arange(5) * 10**12 - 10**12, "query"))
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(scores, "numbers")
    client = Client(tmp_path / "s.db")
    for query in ("-1000000000000", "0", "3000000000000"):
        assert client(f"/query.json?run=1&query={query}").status == 200
    for query in ("7", "0.0", "x", "9" * 30, "%C2%B2"):
        assert client(f"/query?run=1&query={query}").status == 404


def test_runs_without_values_of_queries_have_pages(tmp_path):
    with assay.store.open(tmp_path / "s.db") as store:
        store.save(None, "bare", dataset="d", aggregates=[assay.store.Aggregate("AP", 0.5, n=3)])
        store.save(None, "empty", dataset="d")
        store.save(None, "other", dataset="d", aggregates=[assay.store.Aggregate("AP", 0.4, n=3)])
    client = Client(tmp_path / "s.db")
    for address in ("/run/1", "/run/2", "/leaderboard", "/trends", "/runs"):
        assert client(address).status == 200, address
    assert "has no per-query values" in unescape(client("/compare?run=1&run=3").text)


def test_an_empty_store_has_pages(tmp_path):
    assay.store.open(tmp_path / "s.db").close()
    client = Client(tmp_path / "s.db")
    assert "The store is empty" in client("/runs").text
    for address in ("/leaderboard", "/trends", "/compare", "/runs.csv", "/leaderboard.json"):
        assert client(address).status == 200, address


def test_pages_over_postgres(request):
    place = new_database(request.config)
    with assay.store.open(place) as store:
        save_demo(store)
    client = Client(place)
    for address in (
        *PAGES,
        "/runs?sort=value&measure=AP&named_like=N&tag=ci&task=retrieval",
        "/runs.csv",
        "/leaderboard.json?of=all&dataset=cranfield",
    ):
        assert client(address).status == 200, address
    assert client("/runs.json?named_like=NIGHT").json["total"] == 6
    client.source.close()
