"""Sphinx's configuration of the site. The names are Sphinx's and its extensions' own."""

from importlib.metadata import distribution

from docutils import nodes
from sphinx.application import Sphinx

project = "Normalization and Position, Proved Cell by Cell"
extensions = ["myst_nb"]
exclude_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]  # of the first index.md is made

nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # outputs in Markdown are read like the text
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3  # a link to a claim's evidence names its heading

# MathJax in one file that draws its own letters: a page read from a file may not fetch a font.
_mathjax = distribution("sphinx-mathjax-offline").locate_file(
    "sphinx-mathjax-offline/static/mathjax/tex-svg.js"
)
mathjax_path = "tex-svg.js"
# As in JupyterLab, an output may hold formulas, too: there nothing but their dollars marks them.
mathjax3_config = {"tex": {"inlineMath": [["\\(", "\\)"], ["$", "$"]]}}
myst_mathjax_classes = "tex2jax_process|mathjax_process|math|text_html"

# The search is Sphinx's own, its box Furo's; what site.js filters is the rows of a table.
html_theme = "furo"
html_title = project
html_static_path = ["site.css", "site.js", "live.js", "puzzles.js", str(_mathjax)]
html_css_files = ["site.css"]
html_js_files = ["site.js", "live.js", "puzzles.js"]
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_show_search_summary = False  # it would be fetched, and a page read from a file may not
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"


def setup(app: Sphinx) -> None:
    """Let links lead to a code cell."""
    app.connect("doctree-read", _give_cells_their_anchors)


def _give_cells_their_anchors(_: Sphinx, page: nodes.document) -> None:
    for cell in page.findall(nodes.container):
        if cell.get("nb_element") == "cell_code":
            cell["ids"].append(cell["cell_metadata"]["anchor"])
