"""Every parameter of every page with hostile values: a page or a refusal, never a failure."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.web.samples import Client

PARAMETERS = {
    "/runs": [
        *(
            "page",
            "sort",
            "order",
            "named_like",
            "name",
            "dataset",
            "task",
            "model",
            "tag",
            "status",
        ),
        *("measure", "since", "until", "table", "run", "column", "group"),
    ],
    "/": ["days"],
    "/leaderboard": [
        *("dataset", "measure", "of", "page", "task", "table", "also", "cost", "named_like")
    ],
    "/run/1": ["measure", "page", "sort", "order", "by", "table", "q"],
    "/compare?run=1&run=2": [
        *("run", "measure", "baseline", "page", "sort", "order", "table", "slice", "q")
    ],
    "/diff?run=1&run=2": ["run", "show", "table"],
    "/query?run=1&query=q01": ["run", "query", "measure", "table", "sort", "order", "q"],
    "/trends": ["dataset", "measure", "name", "page", "task", "table"],
}
VALUES = [
    "9" * 4400,
    "0" * 4400 + "1",
    "-" + "9" * 4400,
    "18446744073709551616",
    "-1",
    "0",
    "1e999",
    "NaN",
    "٣",
    "a\0b",
    "\ud83d",
    " ",
    "'; DROP TABLE runs; --",
    "%[]{}",
    "nDCG@" + "9" * 5000,
    "R(rel=1e999)@5",
    "0001-01-01",
    "9999-12-31T23:59:59+23:59",
    "x" * 60_000,
]
ENDINGS = ("", ".json", ".csv")


def _address(page: str, ending: str, name: str, value: str) -> str:
    path, _, query = page.partition("?")
    kept = [pair for pair in query.split("&") if pair and not pair.startswith(f"{name}=")]
    return f"{path}{ending}?" + "&".join([*kept, f"{name}={quote(value, errors='surrogatepass')}"])


_EACH = [(page, name) for page, names in PARAMETERS.items() for name in names]


@pytest.mark.parametrize(
    ("page", "name", "values"),
    [
        *((*each, VALUES[number % 5 :: 5]) for number, each in enumerate(_EACH)),
        *(pytest.param(*each, VALUES, marks=pytest.mark.slow) for each in _EACH),
    ],
)
def test_no_value_makes_a_page_fail(
    client: Client, page: str, name: str, values: list[str]
) -> None:
    for value in values:
        for ending in ENDINGS if name in ("page", "measure", "run") else ENDINGS[:1]:
            answer = client(_address(page, ending, name, value))
            assert answer.status in (200, 400, 404), (ending, value[:60], answer.body[:300])


@pytest.mark.parametrize("ending", ENDINGS)
def test_odd_names_of_parameters_and_paths(client: Client, ending: str) -> None:
    for page in PARAMETERS:
        path = page.partition("?")[0]
        path = "/home" if ending and path == "/" else path
        for query in ("page[]=1", "page[0]=1&page[1]=2", "=", "&&&", "%", "%ff=%ff", "page=1" * 9):
            assert client(f"{path}{ending}?{query}").status in (200, 400, 404)
    for key in ("9" * 4400, "-1", "٣", "%00", "%ff", "x" * 5000, "1e9"):
        assert client(f"/run/{quote(key, safe='%')}{ending}").status in (400, 404)


@pytest.mark.parametrize("page", ["9" * 4400, "0" * 4400, "10000000", "-1", "٣"])
def test_numbers_of_pages(client: Client, page: str) -> None:
    answer = client(f"/runs?page={quote(page)}")
    assert answer.status == 400
    assert len(answer.body) < 20_000
