"""Sphinx's configuration of the site. The names are Sphinx's and its extensions' own."""

import json
import re
from collections.abc import Iterator
from html import unescape
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx

from chapters.contents import CHAPTERS
from tools.notebooks import NOTEBOOKS
from tools.readme import addresses, repository

_CITATION = Path(__file__).parents[2] / "CITATION.cff"

project = "Normalization and Position, Proved Cell by Cell"
extensions = ["myst_nb"]
exclude_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]  # of the first index.md is made
templates_path = ["templates"]

nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # outputs in Markdown are read like the text
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3  # a link to a claim's evidence names its heading

# MathJax in one file that draws its own letters: a page read from a file may not fetch a font.
# formulas.js loads it when the widgets are there.
_mathjax = distribution("sphinx-mathjax-offline").locate_file(
    "sphinx-mathjax-offline/static/mathjax/tex-svg.js"
)
mathjax_path = "formulas.js"
# As in JupyterLab, an output may hold formulas, too: there nothing but their dollars marks them.
mathjax3_config = {"tex": {"inlineMath": [["\\(", "\\)"], ["$", "$"]]}}
myst_mathjax_classes = "tex2jax_process|mathjax_process|math|text_html"

html_theme = "furo"
html_title = project
html_favicon = "favicon.svg"
_scripts = ["site.js", "live.js", "puzzles.js", "write.js"]
_static = ["site.css", "formulas.js", "search.js", "site.js", "live.js", "puzzles.js"]
html_static_path = [*_static, "write/write.js", str(_mathjax)]
html_css_files = ["site.css"]
html_js_files = _scripts
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_context = {
    "chapters": {f"{NOTEBOOKS}/{Path(chapter.file).stem}": chapter for chapter in CHAPTERS},
    "cff": yaml.safe_load(_CITATION.read_text(encoding="utf-8")),
    "address": repository() and addresses(repository())["site"],
}
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"

_NO_WORDS = re.compile(r'<(script|style)\b.*?</\1>|<a class="headerlink".*?</a>|<[^>]+>', re.DOTALL)
_CARD = re.compile(r'<div id="(?P<id>claim-[\w-]+)".*?(?=<div id="claim-|\Z)', re.DOTALL)
_ROW = re.compile(r'<tr id="(?P<id>[^"]+)">.*?</tr>', re.DOTALL)
_MARKED = re.compile(r'(<span class="math [^>]*>[^<]*</span>[.,;:?!)]+)')
_TEX = re.compile(r"\\(?:frac|hat|left|right|mathrm|text|operatorname|[,;! ]|q?quad|var)?|[{}$]")
_SENTENCE = re.compile(r"<strong style=\"font-weight:600\">(.*?)</strong>|<td[^>]*>(.*?)</td>")


def setup(app: Sphinx) -> None:
    """Let links lead to a code cell, and search.js find sections, claims and rows."""
    places: list[dict[str, str]] = []

    def collect(app: Sphinx, page: nodes.document, name: str) -> None:
        address = app.builder.get_target_uri(name)
        title = app.env.titles[name].astext()
        for anchor, heading, text in _places(page):
            where = {"address": f"{address}#{anchor}", "page": title}
            places.append({**where, "title": _plain(heading), "text": _plain(text)})

    def write(app: Sphinx, error: Exception | None) -> None:
        found = json.dumps(places, ensure_ascii=False)
        script = Path(app.outdir, "_static", "sections.js")
        script.write_text(f"const sections = {found};\n", encoding="utf-8")

    app.connect("doctree-read", _give_cells_their_anchors)
    app.connect("html-page-context", _keep_marks_with_formulas)
    app.connect("doctree-resolved", collect)
    app.connect("build-finished", write)


def _give_cells_their_anchors(_: Sphinx, page: nodes.document) -> None:
    for cell in page.findall(nodes.container):
        if cell.get("nb_element") == "cell_code":
            cell["ids"].append(cell["cell_metadata"]["anchor"])


def _keep_marks_with_formulas(
    _app: Sphinx, _name: str, _template: str, context: dict[str, Any], _page: nodes.document | None
) -> None:
    """No line begins with the comma or the full stop that follows a formula."""
    together = r'<span class="course-together">\1</span>'
    context["body"] = _MARKED.sub(together, context.get("body", ""))


def _places(page: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Yield what a search may find: anchor, heading and text of sections, claims and rows."""
    for section in page.findall(nodes.section):
        texts = []
        for block in _blocks(section):
            text = block.astext()
            if isinstance(block, nodes.raw):
                for part in (*_CARD.finditer(text), *_ROW.finditer(text)):
                    heading = _SENTENCE.search(part[0])
                    yield part["id"], "".join(heading.groups("")) if heading else "", part[0]
                text = _ROW.sub("", _CARD.sub("", text))
            texts.append(text)
        yield section["ids"][0], section.next_node(nodes.title).astext(), " ".join(texts)


def _blocks(section: nodes.section) -> Iterator[nodes.Element]:
    """Yield the paragraphs and outputs of a section, without those of the sections in it."""
    for child in section.children:
        if not isinstance(child, nodes.section | nodes.title):
            for block in child.findall(nodes.TextElement):
                is_inline = isinstance(block, nodes.Inline) and not isinstance(block, nodes.raw)
                if not isinstance(block, nodes.literal_block) and not is_inline:
                    yield block


def _plain(text: str) -> str:
    """Return text to read: without tags, and of a formula the letters' names."""
    return " ".join(_TEX.sub(" ", unescape(_NO_WORDS.sub(" ", text))).split())
