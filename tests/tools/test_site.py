"""The static site: whole, self-contained, and every link in it leads somewhere."""

import ast
import gzip
import json
import re
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from chapters.c21_find_the_bug import bugs
from chapters.contents import CHAPTERS
from course_utils.plots.style import image_html, new_figure
from tools import readme
from tools.lint import Page
from tools.notebooks import (
    METADATA,
    NOTEBOOKS,
    has_tag,
    is_code,
    minutes_text,
    read_notebook,
)
from tools.site import _with_files, build_site

# MyST-Parser's own business
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*Check CHANGES for Sphinx API:PendingDeprecationWarning"
)

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 40e6
_COLOUR = re.compile(r'<span class="\w{1,3}">([^<]*)</span>')
# the smallest README that the first page can be made of
README = """\
(https://example.org/blob/main/notebooks/00_start_here.ipynb)

![A picture](.github/course.gif)

**For whom.** You.

## The chapters

## What you can rely on

## Run the experiments

## Cite and share
"""


@pytest.fixture(scope="module")
def pages(site):
    """Every page of the site, by its file, without the colours of its code, which are most of its
    tags."""
    texts = {
        path: _COLOUR.sub(r"\1", path.read_text(encoding="utf-8")) for path in site.rglob("*.html")
    }
    return {path: BeautifulSoup(text, "html.parser") for path, text in texts.items()}


def with_attribute(page, *names):
    """Return the tags' names and the values of the attributes ``names``."""
    return [
        (tag.name, str(tag[name]))
        for tag in page.find_all(True)
        for name in names
        if name in tag.attrs
    ]


def is_plumbing(cell):
    """Whether a cell only calls what its output shows."""
    body = ast.parse(cell.source).body
    calls = [ast.unparse(node.value) for node in body if isinstance(node, ast.Expr)]
    return len(calls) == len(body) == 1 and calls[0].startswith(
        ("widgets.", "claims.index(", "claims.table(", "conventions.table(", "glossary.table(")
    )


def says_nothing(cell, output):
    return "course_utils.setup(" in cell.source or "not attempted yet" in str(output)


def page_of(notebook):
    return f"notebooks/{Path(notebook).stem}.html"


@pytest.mark.slow
def test_it_is_small_and_names_no_folder_of_this_machine(site, pages):
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < LARGEST_BYTES
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert str(ROOT) not in text, path.name
        assert tempfile.gettempdir() not in text, path.name


@pytest.mark.slow
def test_every_link_and_every_anchor_leads_somewhere(pages):
    anchors = {
        path: {name for _, name in with_attribute(page, "id")} for path, page in pages.items()
    }
    for path, page in pages.items():
        for address in {address for _, address in with_attribute(page, "href", "src")}:
            parts = urlsplit(address)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert parts.scheme or target.is_file(), (path.name, address)
            found = parts.scheme or not parts.fragment or unquote(parts.fragment) in anchors[target]
            assert found, (path.name, address)


@pytest.mark.slow
@pytest.mark.parametrize(
    "chapter", [chapter for chapter in CHAPTERS if chapter.is_written], ids=lambda c: c.number
)
def test_a_chapter_is_whole_and_its_solutions_and_nothing_else_are_folded(chapter, site, pages):
    notebook = Page.read(ROOT / NOTEBOOKS / chapter.file)
    article = pages[site / page_of(chapter.file)].find("article")
    cells = [cell for cell in notebook.cells if is_code(cell)]

    def code(selector: str) -> list[str]:
        return [pre.get_text().rstrip() for pre in article.select(selector)]

    shown = [cell for cell in cells if not is_plumbing(cell)]
    assert code(".cell_input pre") == [cell.source.rstrip() for cell in shown]
    outputs = [[out for out in cell.outputs if not says_nothing(cell, out)] for cell in cells]
    assert len(article.select(".cell_output")) == sum(map(bool, outputs))
    assert "not attempted yet" not in article.get_text()
    assert "· torch 2." not in "".join(pre.get_text() for pre in article.select(".stream")[:1])
    assert len(article.find_all(re.compile("^h[1-6]$"))) == len(notebook.headings)
    folded = [
        cell.source for cell in shown if cell.metadata.get("jupyter", {}).get("source_hidden")
    ]
    assert code("details.hide pre") == folded
    open_folds = article.select("details[open]")
    assert [fold for fold in open_folds if not fold.find_parent(class_="cell_output")] == []
    for tag in ("img", "details"):
        shown = [
            element
            for element in article.find_all(tag)
            if not {"hide", "turned"} & set(element.get("class", ()))
        ]
        assert len(shown) == sum(element.tag == tag for _, element in notebook.elements), tag
    assert all(str(image.get("alt", "")).strip() for image in article.find_all("img"))
    for formula in article.select(":not(.course-together) > span.math"):  # no mark on the next line
        assert not str(formula.next_sibling or "").startswith((".", ",", ";", ":", "?", ")"))


def test_a_dark_page_keeps_the_colours_that_are_values_and_turns_the_rest(tmp_path):
    figure, axes = new_figure(2)
    axes.imshow([[0.0, 1.0]])
    html = _with_files(image_html(figure, "values"), tmp_path, ".")
    files = [tmp_path / name for name in re.findall(r'src="\./([^"]+)"', html)]
    light, dark = (Image.open(file) for file in files)
    left, top, right, bottom = map(int, light.info["values"].split())
    for x in (left + 5, right - 5):  # one value each
        assert light.convert("RGB").getpixel((x, bottom - 5)) == dark.convert("RGB").getpixel(
            (x, bottom - 5)
        )
    assert light.convert("L").getpixel((left - 5, top - 5)) > 240
    assert dark.convert("L").getpixel((left - 5, top - 5)) < 40


@pytest.mark.slow
def test_every_claim_has_a_link_to_itself_and_every_exercise_says_where_it_is_done(site, pages):
    for chapter in CHAPTERS:
        article = pages[site / page_of(chapter.file)].find("article")
        for claim in article.select(".course-claim"):
            assert claim.select_one("a.headerlink")["href"] == f"#{claim['id']}"
        cells = Page.read(ROOT / NOTEBOOKS / chapter.file).cells
        exercises = [cell for cell in cells if has_tag(cell, "exercise")]
        ways = article.select('.course-note a[href="../index.html#run-it"]')
        assert len(ways) == 1 + len(exercises)  # to get the course; to do each
        times = minutes_text(read_notebook(ROOT / NOTEBOOKS / chapter.file))
        assert article.get_text().count(times) == 1  # as its first cell has them
    rows = pages[site / page_of("22_words_and_conventions.ipynb")].select("tr[id]")
    assert "whose-share-is-momentum" in {row["id"] for row in rows}


@pytest.mark.slow
def test_the_puzzle_of_a_piece_asks_for_the_line_that_its_mending_changes(site, pages):
    article = pages[site / page_of("21_find_the_bug.ipynb")].find("article")
    puzzles = article.select(".course-puzzle")
    for puzzle, bug in zip(puzzles, bugs.BUGS.values(), strict=True):
        lines = puzzle.find_parent(class_="cell_output").select_one("pre").get_text().splitlines()
        answer = json.loads(puzzle["data-answer"])
        guesses = {lines[number] for number in answer["wrong"]}
        wrong = {
            line[1:]
            for line in bug.reveal().text.splitlines()
            if line.startswith("-") and line[1:] in lines
        }
        assert guesses >= wrong, bug.letter
        assert bool(guesses) == bool(wrong) != bug.is_clean
        assert {
            lines[int(number)]: why for number, why in answer["innocent"].items()
        }.keys().isdisjoint(guesses)
        assert set(answer["innocent"].values()) == set(bug.innocent.values())


@pytest.mark.slow
def test_the_first_page_leads_to_every_chapter_by_its_title(site, pages):
    index = pages[site / "index.html"]
    linked = {
        link["href"]: link.select_one("strong").get_text() for link in index.select("a.course-card")
    }
    for chapter in CHAPTERS:
        assert linked[page_of(chapter.file)] == chapter.label
    assert "make lab" in index.find("article").get_text()
    parts = [caption.get_text() for caption in index.select(".sidebar-tree .caption")]
    assert parts == list(dict.fromkeys(chapter.part for chapter in CHAPTERS))


@pytest.mark.slow
def test_a_page_says_what_it_is_to_who_shares_and_cites_it(site, pages):
    for chapter in CHAPTERS:
        page = pages[site / page_of(chapter.file)]
        said = {
            tag.get("name") or tag.get("property"): tag["content"]
            for tag in page.select("meta[content]")
        }
        assert said["description"] == said["og:description"] == chapter.about.replace("`", "")
        assert said["og:title"] == chapter.label
        assert (site / NOTEBOOKS / said["og:image"]).resolve().is_file()
        assert said["author"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", said["date"])
        assert (site / NOTEBOOKS / page.select_one("link[rel~=icon]")["href"]).resolve().is_file()
        cited = page.select_one(".course-cite p").get_text()
        assert all(part in cited for part in (chapter.label, said["author"], said["date"]))


@pytest.mark.slow
def test_the_course_can_be_downloaded_and_every_section_and_claim_can_be_found(site, pages):
    assert pages[site / "index.html"].select('a[href="course.zip"]')
    with ZipFile(site / "course.zip") as archive:
        files = set(archive.namelist())
    assert {f"course/{NOTEBOOKS}/{c.file}" for c in CHAPTERS} | {"course/Makefile"} < files
    script = (site / "_static" / "sections.js").read_text(encoding="utf-8")
    places = json.loads(script.removeprefix("const sections = ").removesuffix(";\n"))
    found = {place["address"] for place in places}
    for chapter in CHAPTERS:
        article = pages[site / page_of(chapter.file)].find("article")
        wanted = article.select("section[id], .course-claim[id], tr[id]")
        assert {f"{page_of(chapter.file)}#{element['id']}" for element in wanted} <= found
    assert all(place["title"] and "<" not in place["title"] for place in places)
    assert not any("¶" in place["text"] for place in places)


@pytest.mark.slow
def test_a_widget_can_be_moved_within_three_seconds_of_a_slow_line(site, pages):
    """At 1.6 Mbit/s, compressed, with four round trips of 150 ms: the page, its style sheets and
    all scripts that it names; formulas and pictures come later. Chromium on two busy cores takes
    half a second to a second more than this sum: hence two."""
    seconds = {}
    for path, page in pages.items():
        named = [tag.get("src") or tag["href"] for tag in page.select("script[src], link[href]")]
        files = {
            (path.parent / urlsplit(address).path).resolve()
            for address in named
            if urlsplit(address).path.endswith((".js", ".css"))
        }
        size = sum(len(gzip.compress(file.read_bytes())) for file in {path, *files})
        seconds[path.stem] = 4 * 0.15 + size * 8 / 1.6e6
    seconds.pop("search")  # it loads the index of all words
    assert max(seconds.values()) < 2, seconds


def build_one(tmp_path, cells):
    """Build the site of a course of one chapter; return its status."""
    for folder in (NOTEBOOKS, "site"):
        (tmp_path / folder).mkdir()
    notebook = new_notebook(cells=cells, metadata=nbformat.from_dict(METADATA))
    nbformat.write(notebook, tmp_path / NOTEBOOKS / "02_layer_norm.ipynb")
    (tmp_path / "README.md").write_text(README)
    (tmp_path / "site" / "old.html").touch()
    return build_site(tmp_path / "site", tmp_path)


@pytest.mark.slow
def test_with_an_address_a_page_leads_to_its_notebook_and_the_first_to_a_clone(
    tmp_path, monkeypatch
):
    urls = {"Repository": "https://github.com/someone/norms"}
    monkeypatch.setitem(readme._PROJECT, "urls", urls)
    build_one(tmp_path, [new_markdown_cell("# 02\n\nWords.")])
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert (
        "git clone https://github.com/someone/norms"
        in BeautifulSoup(index, "html.parser").get_text()
    )
    page = (tmp_path / "site" / page_of("02_layer_norm.ipynb")).read_text(encoding="utf-8")
    links = [link["href"] for link in BeautifulSoup(page, "html.parser").select(".course-note a")]
    assert [urlsplit(link).netloc for link in links] == [
        "colab.research.google.com",
        "mybinder.org",
        "github.com",
    ]
    assert all(link.endswith("/02_layer_norm.ipynb") for link in links)
    assert "https://someone.github.io/norms/_static/02.png" in page


@pytest.mark.slow
def test_nothing_runs_the_old_site_is_gone_and_a_dead_link_is_reported(tmp_path, capsys):
    stored = new_output("stream", text="stored long ago\n")
    source = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
    dead_link = new_markdown_cell("# 02\n\n[a link](99_nowhere.ipynb)")
    cells = [dead_link, new_code_cell(source, outputs=[stored], execution_count=1)]
    assert build_one(tmp_path, cells) == 1
    assert "99_nowhere.ipynb" in capsys.readouterr().err
    assert "stored long ago" in (tmp_path / "site" / page_of("02_layer_norm.ipynb")).read_text(
        encoding="utf-8"
    )
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "site" / "old.html").exists()
