"""The documentation as a site: navigation, links and anchors, and what the built pages load."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

import assay
from assay.cli.main import assay as program
from docs import pages as site
from docs.reference import VERBS
from tests.docs_pages import ROOT, without_code

OWN = re.compile(r"(?:https?:)?//|mailto:")


@cache
def pages() -> dict[str, str]:
    return site.pages()


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} +(.*?)\s*$", without_code(text, spans=False), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.add(slug if not seen[slug] else f"{slug}_{seen[slug]}")
        seen[slug] += 1
    return found


def links(text: str) -> list[tuple[str, str]]:
    """Targets of links and pictures within the site: page and anchor."""
    found = re.findall(r"\]\(([^)\s]+)\)", without_code(text))
    own = [urlsplit(target) for target in found if not OWN.match(target)]
    return [(target.path, target.fragment) for target in own]


def test_the_navigation_has_every_page_once() -> None:
    assert Counter(site.navigation()) == Counter(list(pages()))


@pytest.mark.parametrize("name", sorted(site.navigation()))
def test_links_and_anchors_lead_somewhere(name: str) -> None:
    for path, anchor in links(pages()[name]):
        target = path or name
        if target.endswith(site.PICTURES):
            assert (ROOT / "docs" / target).is_file(), target
            continue
        assert target in pages(), f"{name}: {path}"
        assert not anchor or unquote(anchor) in anchors(pages()[target]), f"{name}: {path}#{anchor}"


def test_links_of_the_repository_lead_somewhere() -> None:
    """Where the pages are read as files, a link is a path."""
    for name, source in {**site.sources(), "README": ROOT / "README.md"}.items():
        text = source.read_text("utf-8")
        for path, anchor in links(text):
            target = (source.parent / path).resolve() if path else source
            assert target.exists(), f"{name}: {path}"
            if anchor and target.suffix == ".md":
                assert unquote(anchor) in anchors(target.read_text("utf-8")), f"{name}: {anchor}"


def test_every_page_has_one_title() -> None:
    for name, text in pages().items():
        assert len(re.findall(r"^# ", without_code(text), re.M)) == 1, name


def test_a_wrong_link_is_noticed() -> None:
    assert links("[a](b.md#c) ![d](e.png) `[x](y.md)` [f](https://g.org/)") == [
        ("b.md", "c"),
        ("e.png", ""),
    ]
    assert anchors("# A `b`: c?\n\n## A b c\n\n```sh\n# no\n```\n") == {"a-b-c", "a-b-c_1"}


def test_the_reference_has_every_public_name_and_every_command() -> None:
    for name in assay.__all__:
        assert f"### assay.{name}\n" in pages()["api.md"], name
    commands = program.list_commands(click.Context(program))
    for command in (*commands, "runs list", "descriptors patches"):
        assert f"## assay {command}\n" in pages()["commands.md"], command
    helped = re.findall(r"^Usage: .*?^```", pages()["commands.md"], re.S | re.M)
    assert all("-h, --help " in text for text in helped)  # the end of each is there
    assert len(helped) > len(commands)
    for name, text in site.reference().items():
        printed = re.findall(r"^ +assay [a-z].*|^\$ assay .*", text, re.M)
        assert bool(printed) == (name == "commands.md")  # those of help, which are run
    for name in assay.PRESETS:
        assert f"| `{name}` |" in pages()["presets.md"], name
    assert "ForwardRef" not in "".join(site.reference().values())
    assert "0x" not in pages()["api-tasks.md"]  # addresses would differ from build to build


def test_the_reference_starts_with_the_verbs() -> None:
    """Every verb stands in the table with its first line, and in the group that it names."""
    page = pages()["api.md"]
    verbs = [name for names in VERBS.values() for name in names]
    assert len(set(verbs)) == len(verbs)
    assert set(verbs) <= set(assay.__all__)
    table, *groups = page.split("\n## ")
    assert re.findall(r"\| \[`(\w+)`\]", table) == verbs
    assert [group.partition("\n")[0] for group in groups[: len(VERBS)]] == list(VERBS)
    functions = [name for name in assay.__all__ if inspect.isfunction(getattr(assay, name))]
    assert set(verbs) == set(functions)


def test_the_reference_shows_arguments_as_lists() -> None:
    for name, text in site.reference().items():
        if name.startswith("api"):
            assert not re.search(r"^(Args|Returns|Raises|Example):", without_code(text), re.M), name
    for verb in (name for names in VERBS.values() for name in names):
        section = pages()["api.md"].partition(f"### assay.{verb}\n")[2].partition("\n### ")[0]
        writes = verb.startswith("write_")
        for heading in ("Args", *(() if writes else ("Returns",)), "Example"):
            assert f"**{heading}**" in section, f"{verb}: {heading}"
        assert "**Raises**" in section or verb == "score", verb  # its arguments cannot be wrong
    assert "### assay.compat.trec_eval." in pages()["api-compat.md"]


def test_no_section_of_the_reference_is_empty() -> None:
    """Each page says whom it is for, and each module has its names."""
    for name, text in site.reference().items():
        if name.startswith("api"):
            assert text.split("\n\n")[1].startswith("For whoever "), name
            modules = re.split(r"^## ", text, flags=re.M)[1:]
            assert [one.partition("\n")[0] for one in modules if "### " not in one] == []


class _Loaded(HTMLParser):
    """What a page loads by itself, where its links lead, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found.get("id", "")}
        if tag == "a":
            self.links.append(found.get("href", ""))
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(found.get("href", ""))
        else:
            self.loaded += [found[name] for name in ("src", "srcset", "data") if name in found]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly from the pages of now."""
    pytest.importorskip("zensical", reason="scripts/setup docs installs it")
    home = tmp_path_factory.mktemp("site")
    site.build(home)
    return home / "site"


@pytest.mark.slow
def test_the_built_site_loads_nothing_from_elsewhere(built: Path) -> None:
    parsed = {page: _Loaded() for page in built.glob("*.html")}
    assert len(parsed) > 30
    for page, found in parsed.items():
        found.feed(page.read_text("utf-8"))
        foreign = [address for address in found.loaded if OWN.match(address)]
        assert not foreign, page.name
    for sheet in built.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)[\s\"']*(?:https?:)?//", sheet.read_text("utf-8"))
    for page, found in parsed.items():
        for address in found.links:
            target = urlsplit(address)
            if OWN.match(address) or not address or page.name == "404.html":
                continue
            there = (page.parent / unquote(target.path)).resolve() if target.path else page
            assert there.is_file() or (there / "index.html").is_file(), f"{page.name}: {address}"
            if target.fragment and there.suffix == ".html":
                known = parsed[there].anchors
                assert unquote(target.fragment) in known, f"{page.name}: {address}"


def test_the_builder_is_an_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert any(one.startswith("zensical") for one in extras["optional-dependencies"]["docs"])
