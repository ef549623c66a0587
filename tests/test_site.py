"""The static site: whole, self-contained, and every link in it leads somewhere."""

import re
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup, Tag
from markdown_it import MarkdownIt
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course_utils.book.chapters import CHAPTERS
from tools.lint import Page
from tools.notebooks import METADATA, NOTEBOOKS, is_code
from tools.site import build_site

# MyST-Parser's own business
pytestmark = pytest.mark.filterwarnings("ignore:.*Check CHANGES for Sphinx API:PendingDeprecationWarning")

ROOT = Path(__file__).parent.parent
CHAPTERS_HERE = [chapter for chapter in CHAPTERS if chapter.is_written]
LARGEST_BYTES = 40e6
# the smallest README that the first page can be made of
README = """\
(https://example.org/blob/main/notebooks/00_start_here.ipynb)

A course.

## Learn

With `make lab`.

## The chapters

[Layer norm](notebooks/02_layer_norm.ipynb)

## Use the code

## Cite and share

Freely.
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the whole course."""
    folder = tmp_path_factory.mktemp("built") / "site"
    assert build_site(folder, ROOT) == 0
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, BeautifulSoup]:
    """Every page of the site, by its file."""
    return {path: BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser") for path in site.rglob("*.html")}


@pytest.fixture(scope="module")
def chapters(site: Path, pages: dict[Path, BeautifulSoup]) -> list[tuple[Page, Tag]]:
    """Each notebook, and the article made of it."""
    return [
        (Page.read(ROOT / NOTEBOOKS / chapter.file), article_of(pages[site / page_of(chapter.file)]))
        for chapter in CHAPTERS_HERE
    ]


def page_of(notebook: str) -> str:
    return f"notebooks/{Path(notebook).stem}.html"


def article_of(page: BeautifulSoup) -> Tag:
    article = page.find("article")
    assert isinstance(article, Tag)
    return article


def addresses(page: BeautifulSoup, attributes: tuple[str, ...] = ("href", "src")) -> list[tuple[str, str]]:
    """Return tag and address of everything that a page links to or loads."""
    return [(tag.name, str(tag[name])) for name in attributes for tag in page.find_all(attrs={name: True})]


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    loaded = [
        (path.name, address)
        for path, page in pages.items()
        for tag, address in addresses(page, ("href", "src", "srcset", "data", "poster"))
        if tag != "a" and urlsplit(address).netloc
    ]
    assert loaded == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    styles += [tag.get_text() for page in pages.values() for tag in page.find_all("style")]
    styles += [str(tag["style"]) for page in pages.values() for tag in page.find_all(style=True)]
    assert len(styles) > len(pages)
    for style in styles:
        assert "@import" not in style
        assert [url for url in re.findall(r"url\(\s*['\"]?([^'\")]*)", style) if urlsplit(url).netloc] == []


def test_every_link_and_every_anchor_leads_somewhere(pages: dict[Path, BeautifulSoup]) -> None:
    anchors = {path: {str(tag["id"]) for tag in page.find_all(id=True)} for path, page in pages.items()}
    broken, checked = [], 0
    for path, page in pages.items():
        for _, address in addresses(page):
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_there = target.is_file() and (not parts.fragment or unquote(parts.fragment) in anchors[target])
            broken += [] if is_there else [(path.name, address)]
            checked += 1
    assert broken == []
    assert checked > 100


def test_it_is_small(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < LARGEST_BYTES


def test_every_chapter_is_whole(chapters: list[tuple[Page, Tag]]) -> None:
    for notebook, article in chapters:
        sources = [cell.source for cell in notebook.cells if is_code(cell)]
        assert [pre.get_text().rstrip() for pre in article.select(".cell_input pre")] == [
            source.rstrip() for source in sources
        ], notebook.path.name
        in_boxes = [output for _, output in notebook.outputs() if "text/markdown" not in output.get("data", {})]
        assert len(article.select(".cell_output > .output")) == len(in_boxes), notebook.path.name
        with_outputs = [cell for cell in notebook.cells if cell.get("outputs")]
        assert len(article.select(".cell_output")) == len(with_outputs), notebook.path.name
        headings = [heading.get_text().removesuffix("#") for heading in article.find_all(re.compile("^h[1-6]$"))]
        assert len(headings) == len(notebook.headings), notebook.path.name
        for tag in ("img", "table", "details"):
            shown = [element for element in article.find_all(tag) if "hide" not in element.get("class", ())]
            stored = [element for _, element in notebook.elements if element.tag == tag]
            expected = len(stored) + (tables_in_markdown(notebook) if tag == "table" else 0)
            assert len(shown) == expected, (notebook.path.name, tag)


def tables_in_markdown(notebook: Page) -> int:
    """Return how many tables a notebook writes in Markdown, in its text and in its outputs."""
    texts = [cell.source for _, cell in notebook.markdown_cells()]
    texts += [output.get("data", {}).get("text/markdown", "") for _, output in notebook.outputs()]
    parser = MarkdownIt().enable("table")
    return sum(token.type == "table_open" for text in texts for token in parser.parse(text))


def test_every_figure_says_what_it_shows(pages: dict[Path, BeautifulSoup]) -> None:
    images = [image for page in pages.values() for image in page.find_all("img")]
    assert len(images) > len(CHAPTERS_HERE)
    assert [str(image)[:80] for image in images if not str(image.get("alt", "")).strip()] == []


def test_solutions_and_nothing_else_are_folded(chapters: list[tuple[Page, Tag]]) -> None:
    for notebook, article in chapters:
        folded = [cell.source for cell in notebook.cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
        assert len(folded) == len(notebook.exercises)
        assert [pre.get_text().rstrip() for pre in article.select("details.hide pre")] == folded, notebook.path.name
        assert article.select("details[open]") == []


def test_formulas_are_left_to_a_mathjax_that_comes_with_the_site(site: Path, pages: dict[Path, BeautifulSoup]) -> None:
    with_formulas = [page for page in pages.values() if page.select(".math")]
    assert with_formulas
    for page in with_formulas:
        assert [address for tag, address in addresses(page) if tag == "script" and "tex-svg.js" in address]
    assert "MathJax" in (site / "_static" / "tex-svg.js").read_text(encoding="utf-8")


def test_the_first_page_leads_to_every_chapter_and_says_what_one_builds(pages: dict[Path, BeautifulSoup]) -> None:
    index = next(page for path, page in pages.items() if path.name == "index.html")
    rows = [row.find_all("td") for row in article_of(index).select("tbody tr") if not row.find("img")]
    linked = {row[0].get_text(): (row[1].find("a")["href"], row[1].get_text(), row[2].get_text()) for row in rows}
    assert list(linked) == [chapter.number for chapter in CHAPTERS_HERE]
    for chapter in CHAPTERS_HERE:
        address, title, builds = linked[chapter.number]
        assert (address, title) == (page_of(chapter.file), chapter.title)
        assert builds.strip()
    assert "make lab" in article_of(index).get_text()
    assert "MIT License" in article_of(index).get_text()
    parts = [caption.get_text() for caption in index.select(".sidebar-tree .caption")]
    assert parts == list(dict.fromkeys(chapter.part for chapter in CHAPTERS_HERE))


def test_it_does_not_say_where_it_was_made(pages: dict[Path, BeautifulSoup]) -> None:
    for path, page in pages.items():
        for place in (str(ROOT), tempfile.gettempdir()):
            assert place not in str(page), path.name


def small_project(folder: Path, *cells: nbformat.NotebookNode) -> Path:
    """A project of one chapter."""
    (folder / NOTEBOOKS).mkdir()
    cells = (new_markdown_cell("# 02 · Layer norm"), *cells)
    notebook = new_notebook(cells=list(cells), metadata=nbformat.from_dict(METADATA))
    nbformat.write(notebook, folder / NOTEBOOKS / "02_layer_norm.ipynb")
    (folder / "README.md").write_text(README)
    return folder


def test_nothing_runs_and_what_was_there_before_is_gone(tmp_path: Path) -> None:
    stored = new_output("stream", text="stored long ago\n")
    cell = new_code_cell(f"open({str(tmp_path / 'ran')!r}, 'w').close()", outputs=[stored], execution_count=1)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "old.html").touch()
    assert build_site(tmp_path / "site", small_project(tmp_path, cell)) == 0
    assert "stored long ago" in (tmp_path / "site" / page_of("02_layer_norm.ipynb")).read_text(encoding="utf-8")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "site" / "old.html").exists()


def test_a_link_that_leads_nowhere_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = new_markdown_cell("See [the next one](99_nowhere.ipynb).")
    assert build_site(tmp_path / "site", small_project(tmp_path, cell)) == 1
    complaint = capsys.readouterr().err
    assert "02_layer_norm.ipynb" in complaint
    assert "99_nowhere.ipynb" in complaint
