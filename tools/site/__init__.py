"""Make the site: lay out what the pages are made from, and have Sphinx build them.

Nothing is executed and nothing is fetched, and what comes out is read from a file, without a server
or a network.

conf.py      Sphinx's settings: theme, search, formulas
live.py      what a page needs to move its widgets without a kernel; live.js does it
puzzles.js   "find the bug", by clicking a line
site.js      tables: their filter, and what scrolls; the contents at hand; the switch for code
search.js    the search, over what conf.py collects
exercises.py what a page needs to check an exercise that is written on it; write/ does it: the
             editor, MicroPython with a small torch, and the judge of what comes of it
formulas.js  MathJax, when all else is there
"""

import ast
import base64
import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from difflib import SequenceMatcher
from hashlib import sha256
from html import escape
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import nbformat
from nbformat.v4 import new_markdown_cell
from PIL import Image
from sphinx.cmd.build import main as sphinx_build

from chapters import widgets_of
from chapters.c14_rope.widgets import rope_clocks
from chapters.c21_find_the_bug import bugs
from chapters.contents import CHAPTERS, Chapter
from tools.notebooks import (
    NOTEBOOKS,
    find_exercises,
    has_tag,
    is_code,
    is_folded,
    parse_code,
    read_notebook,
    write_notebook,
)
from tools.readme import addresses, repository
from tools.site.exercises import WRITTEN_ON_PAGE, editor, write_python
from tools.site.live import live_html, make_live

__all__ = ["build_site"]

_HERE = Path(__file__).parent
_PICTURE = re.compile(
    r'(?:<picture><source media="[^"]*" srcset="data:image/png;base64,(?P<stacked>[^"]+)">)?'
    r'(?P<image><img alt="(?P<alt>[^"]*)"[^>]*)src="data:image/png;base64,(?P<data>[^"]+)">'
    r"(?:</picture>)?"
)
_HUES_TURNED = (-0.574, 1.43, 0.144, 0, 0.426, 0.43, 0.144, 0, 0.426, 1.43, -0.856, 0)  # by 180°
_TOGETHER = re.compile(r"(?<=\d) (?=%|[×±] \d)|(?<=\d [×±]) (?=\d)")  # no line ends here
# a number that a line would break at its sign; code, formulas, links and tags are passed over
_EXPONENT = re.compile(r"(`+|\$+).*?\1|<[^>]*>|\]\([^)]*\)|(?P<number>\b\d[\d.]*e-\d+)", re.DOTALL)
_DATA = re.compile(r"(?<=base64,)[^\"]+")
_PLUMBING = ("claims.index(", "claims.table(", "conventions.table(", "glossary.table(", "widgets.")
_NOT_ATTEMPTED = "not attempted yet"
_LINK = re.compile(r"\]\(([^)#]+)")
_NOTEBOOK_LINK = re.compile(r'(<a href="[\w.-]+)\.ipynb(?=["#])')
_CLAIM = re.compile(r'(<div id="(claim-[\w-]+)" class="course-claim"[^>]*>)')
_CODE = re.compile(r"(?<=<code>).*?(?=</code>)")
_BREAKS = re.compile(r"([._(=])(?=\w)")
_ROW = re.compile(r"<tr>(?=<td[^>]*>(.*?)(?: \(.*?)?</td>)")  # keywords, in brackets, are no name
_LOOKED_UP = ("conventions.table(", "glossary.table(")  # whose rows others may want to link to
_PIECE = re.compile(r"bugs\.show\((\"[A-Z]\")\)")
_HINT = re.compile(r"<details><summary>Hint .*?</details>", re.DOTALL)
_CHECKED = re.compile(r"\n+check\.(\w+)\(\1\)\s*$")
# what the first page asks for, with a slip to be told of
_CENTRE = (
    'def centre(x):\n    """Subtract from every row of ``x`` (B, C) its own mean."""\n    {}\n'
)
_SLIP = "return x - x.mean()"


def build_site(site: Path, project: Path = Path()) -> int:
    """Write the site of all notebooks, in place of the one that was there.

    Args:
        site: the folder to write; its ``index.html`` is the first page.
        project: the folder that holds the notebooks and the README.

    Returns:
        0, or 1 when there is something to mend, such as a link that leads nowhere; stderr says
        what.
    """
    shutil.rmtree(site, ignore_errors=True)
    with TemporaryDirectory() as work:
        sources, doctrees, built = (Path(work, name) for name in ("sources", "doctrees", "site"))
        scripts = built / "_static"
        scripts.mkdir(parents=True)
        _lay_out(project, sources, scripts)
        options = ["-qW", "-j", "auto", "-b", "html", "-c", str(_HERE), "-d", str(doctrees)]
        status = sphinx_build([*options, str(sources), str(built)])
        shutil.move(built, site)  # MyST-NB leaves a folder of its own beside what it builds
    for source_map in site.rglob("*.map"):
        source_map.unlink()  # of the theme's sources, which are not here
    if not repository() and _is_in_git(project):
        archive = str(site.resolve() / "course.zip")  # of what was committed last
        command = ["git", "archive", "--prefix=course/", "-o", archive, "HEAD"]
        subprocess.run(command, cwd=project, check=True)
    return status


def _is_in_git(project: Path) -> bool:
    return (project / ".git").exists()


def _lay_out(project: Path, sources: Path, scripts: Path) -> None:
    """Put into ``sources`` what Sphinx reads, where it stands in the project, so that links between
    files hold."""
    chapters = [chapter for chapter in CHAPTERS if (project / NOTEBOOKS / chapter.file).exists()]
    for chapter in chapters:
        notebook = read_notebook(project / NOTEBOOKS / chapter.file)
        _say_it_to_sphinx(notebook, scripts, widgets_of(chapter.number))
        notebook.cells = list(_with_notes(notebook, chapter, scripts))
        write_notebook(notebook, sources / NOTEBOOKS / chapter.file)
    readme = (project / "README.md").read_text(encoding="utf-8")
    for file in {"README.md", *_LINK.findall(readme)}:
        if (project / file).is_file() and not (sources / file).exists():
            (sources / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(project / file, sources / file)
    index = (_HERE / "index.md").read_text(encoding="utf-8")
    clocks = rope_clocks()
    picture = _with_files(clocks._repr_mimebundle_()[0]["text/html"], scripts, "_static")
    write_python(scripts)
    parts = {
        "WRITE": editor("centre", _CENTRE.format("..."), scripts, "_static", _CENTRE.format(_SLIP)),
        "HELP": _help(project / NOTEBOOKS / CHAPTERS[0].file, "centre"),
        "COUNT": str(len(WRITTEN_ON_PAGE)),
        "PLAY": live_html(clocks, picture, scripts, "_static"),
        "CARDS": "".join(_card(project, chapter, scripts) for chapter in chapters),
        "GET": _how_to_get(project),
    }
    index = re.sub("|".join(parts), lambda name: parts[name[0]], index)
    (sources / "index.md").write_text("\n".join([index, *_contents(chapters)]), encoding="utf-8")


def _help(path: Path, name: str) -> str:
    """Return the hints to an exercise and its solution, folded as in the notebook, as Markdown."""
    if not path.exists():
        return ""
    notebook = read_notebook(path)
    exercise = next(each for each in find_exercises(notebook) if name in each.names)
    texts = "\n".join(cell.source for cell in notebook.cells[: exercise.stub])
    hints = _HINT.findall(texts)
    assert exercise.solution is not None
    definition = notebook.cells[exercise.solution].source.split("\n\n\n")[0]
    code = definition.removeprefix(f"@check.{name}.solution\n").replace("_solution(", "(")
    fold = f"<details><summary>The solution</summary>\n\n```python\n{code}\n```\n</details>"
    return "\n\n".join([*hints, fold])


def _how_to_get(project: Path) -> str:
    """Return how a visitor gets the course, as Markdown; where nobody can say it, nothing."""
    if repository():
        at, first = addresses(repository()), CHAPTERS[0].file
        return (
            f"```sh\ngit clone {repository()}\ncd {repository().rpartition('/')[2]}\n```\n\n"
            f"Or without installing: on [Colab]({at['colab']}{first}), on [Binder]"
            f"({at['binder']}{first}). Each chapter's page has links to its own notebook there."
        )
    if not _is_in_git(project):
        return ""
    return '<a href="course.zip" download>Download the course</a>, unpack it, and in its folder:'


def _card(project: Path, chapter: Chapter, static: Path) -> str:
    """Return a chapter as a card that links to it: its first figure, its title, what is built in
    it."""
    notebook = read_notebook(project / NOTEBOOKS / chapter.file)
    figures_first = sorted(notebook.cells, key=lambda cell: "widgets." in cell.source[:16])
    outputs = (output for cell in figures_first for output in cell.get("outputs", ()))
    pictures = (_PICTURE.search(output.get("data", {}).get("text/html", "")) for output in outputs)
    picture = ""
    if first := next(filter(None, pictures), None):
        (static / f"{chapter.number}.png").write_bytes(base64.b64decode(first["data"]))
        values = 'class="values" ' if 'class="values"' in first["image"] else ""
        source = f'{values}loading="lazy" src="_static/{chapter.number}.png"'
        picture = f'<img alt="{first["alt"]}" {source}>'
    address = f"{NOTEBOOKS}/{Path(chapter.file).stem}.html"
    about = chapter.about.replace("`", "")
    return (
        '<a class="course-card" '
        f'href="{address}">{picture}<strong>{chapter.label}</strong><span>{about}</span></a>'
    )


def _say_it_to_sphinx(notebook: nbformat.NotebookNode, scripts: Path, widgets: ModuleType) -> None:
    """Say in the words of Sphinx and MyST-NB, in place, what a notebook says in those of
    JupyterLab."""
    for cell in notebook.cells:
        if is_folded(cell):
            prompt = "the solution" if has_tag(cell, "solution") else "the code"
            cell.metadata["mystnb"] = {
                "code_prompt_show": f"Show {prompt}",
                "code_prompt_hide": f"Hide {prompt}",
            }
            cell.metadata.setdefault("tags", []).append("hide-input")
        cell.metadata["anchor"] = (
            f"cell-id={cell.id}"  # as JupyterLab has it; conf.py makes it the cell's
        )
        _hide_plumbing(cell)
        if cell.cell_type == "markdown":
            cell.source = _unbroken(cell.source)
        for output in cell.get("outputs", ()):
            if "text/html" in output.get("data", {}):
                html = _unbroken(_with_anchors(cell.source, output.data["text/html"]))
                output.data["text/html"] = _with_files(html, scripts, "../_static")
            if is_code(cell) and (piece := _PIECE.fullmatch(cell.source)):
                output.data["text/markdown"] += _puzzle(bugs.bug(ast.literal_eval(piece[1])))
        if is_code(cell):
            make_live(cell, scripts, widgets)


def _unbroken(text: str) -> str:
    """Return ``text``, Markdown or HTML, with 1e-6, 5 % and 8 × 8 kept in one piece each."""
    keep = '<span class="course-number">{}</span>'
    text = _TOGETHER.sub("\u00a0", text)
    return _EXPONENT.sub(lambda m: keep.format(m[0]) if m["number"] else m[0], text)


def _hide_plumbing(cell: nbformat.NotebookNode) -> None:
    """Leave out what only a notebook needs: what set-up says, calls of widgets, answers to nobody's
    tries."""
    if not is_code(cell):
        return
    tree = parse_code(cell.source)
    if cell.source.startswith(_PLUMBING) and tree and len(tree.body) == 1:
        cell.metadata.setdefault("tags", []).append("remove-input")
    if "course_utils.setup(" in cell.source:
        cell.outputs = []
    cell.outputs = [output for output in cell.outputs if _NOT_ATTEMPTED not in str(output)]


def _with_files(html: str, static: Path, address: str) -> str:
    """Return an output whose pictures are files, each a link to itself at its full size: a page is
    there before its pictures."""

    def file(data: str) -> tuple[str, int]:
        """Return the address of a picture, and the height that belongs to a width of 760."""
        png = base64.b64decode(data)
        name = f"{sha256(png).hexdigest()[:12]}.png"
        (static / name).write_bytes(png)
        width, height = struct.unpack(">II", png[16:24])
        return f"{address}/{name}", 760 * height // width

    def link(picture: re.Match[str]) -> str:
        path, height = file(picture["data"])
        stacked = ""
        if picture["stacked"]:
            below, tall = file(picture["stacked"])
            size = f'width="760" height="{tall}"'
            stacked = f'<source media="(max-width: 500px)" srcset="{below}" {size}>'
        image = f'{picture["image"]}loading="lazy" height="{height}" src="{path}">'
        return f'<a class="course-figure" href="{path}"><picture>{stacked}{image}</picture></a>'

    def links(picture: re.Match[str]) -> str:
        """Where colours are values, a dark page has a picture of its own."""
        turned = _DATA.sub(lambda data: _darkened(data[0]), picture[0])
        if turned == picture[0]:
            return link(picture)
        dark = _PICTURE.sub(link, turned.replace('class="values"', 'class="turned"'))
        return f'<div class="only-light">{link(picture)}</div><div class="only-dark">{dark}</div>'

    return _PICTURE.sub(links, html)


def _darkened(data: str) -> str:
    """Return a PNG in base64 with its lightness turned round, but where its colours are values;
    ``data`` itself where it does not say where that is."""
    picture = Image.open(BytesIO(base64.b64decode(data)))
    edges = [int(edge) for edge in picture.info.get("values", "").split()]
    if not edges:
        return data
    own = picture.convert("RGB")
    turned = own.point(lambda channel: round(0.93 * 255 - 0.86 * channel))
    turned = turned.convert("RGB", _HUES_TURNED)  # so site.css turns the others
    for box in zip(*[iter(edges)] * 4, strict=True):
        turned.paste(own.crop(box), box)
    png = BytesIO()
    turned.quantize(256).save(png, format="png", optimize=True)
    return base64.b64encode(png.getvalue()).decode("ascii")


def _with_anchors(source: str, html: str) -> str:
    """Return an output whose claims and rows to look up can be linked to, and whose links lead to
    pages."""
    html = _NOTEBOOK_LINK.sub(r"\1.html", html)
    html = _CLAIM.sub(r'\1<a class="headerlink" href="#\2" title="Link to this claim">¶</a>', html)
    if not source.startswith(_LOOKED_UP):
        return html
    html = _ROW.sub(lambda row: f'<tr id="{_slug(row[1])}">', html)
    # a long name breaks after a dot or so
    return _CODE.sub(lambda code: _BREAKS.sub(r"\1<wbr>", code[0]), html)


def _slug(words: str) -> str:
    return "-".join(re.findall(r"\w+", re.sub("<[^>]*>|&[^;]*;", "", words).lower()))


def _puzzle(bug: bugs.Piece) -> str:
    """Return the place where ``puzzles.js`` asks for a piece's wrong line: one that mending it
    changes, or none."""
    lines, mended = (source.splitlines() for source in (bug.source, bug.mended_source))
    changed = [
        change
        for change in SequenceMatcher(None, lines, mended).get_opcodes()
        if change[0] != "equal"
    ]
    # where lines are missing, those on both sides of the gap are right guesses
    wrong = [
        line for _, start, end, *_ in changed for line in (range(start, end) or (start - 1, start))
    ]
    innocent = {
        n: why for part, why in bug.innocent.items() for n, line in enumerate(lines) if part in line
    }
    answer = escape(json.dumps({"wrong": wrong, "innocent": innocent}, ensure_ascii=False))
    return f'\n\n<div class="course-puzzle" data-answer="{answer}"></div>\n'


def _with_notes(
    notebook: nbformat.NotebookNode, chapter: Chapter, scripts: Path
) -> Iterator[nbformat.NotebookNode]:
    """Yield the cells, with what only a page needs: what to expect of it, and where an exercise is
    done."""
    facts = []
    live = (
        cell
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "course-live" in str(output)
    )
    if (first := next(live, None)) is not None:
        facts.append(f'<a href="#cell-id={first.id}">straight to the widget</a>')
    if pieces := [
        cell for cell in notebook.cells if is_code(cell) and _PIECE.fullmatch(cell.source)
    ]:
        facts.append(f'<a href="#cell-id={pieces[0].id}">{len(pieces)} puzzles</a>')
    if count := sum(has_tag(cell, "exercise") for cell in notebook.cells):
        facts.append(f"{count} exercise{'s' * (count > 1)}")
    facts += _links_to_get(chapter)
    for index, cell in enumerate(notebook.cells):
        yield cell
        if index == 0:
            yield new_markdown_cell(f'<p class="course-note">{" · ".join(facts)}</p>')
        if has_tag(cell, "exercise"):
            link = '<a href="../index.html#run-it">JupyterLab</a>'
            where = "Write it in"
            if (found := _CHECKED.search(cell.source)) and found[1] in WRITTEN_ON_PAGE:
                stub = cell.source[: found.start()] + "\n"
                yield new_markdown_cell(editor(found[1], stub, scripts, "../_static"))
                where = "Or write it in"
            yield new_markdown_cell(
                f'<p class="course-note">{where} {link}: there the last line checks it.</p>'
            )


def _links_to_get(chapter: Chapter) -> list[str]:
    if not repository():
        return ['<a href="../index.html#run-it">get the course</a>']
    at = addresses(repository())
    names = {"colab": "Colab", "binder": "Binder", "file": "the notebook"}
    return [f'<a href="{at[key]}{chapter.file}">{name}</a>' for key, name in names.items()]


def _contents(chapters: list[Chapter]) -> Iterator[str]:
    """Yield the sidebar's tables of contents, one for each part of the course."""
    for part, in_part in groupby(chapters, key=lambda chapter: chapter.part):
        pages = (f"{NOTEBOOKS}/{Path(chapter.file).stem}" for chapter in in_part)
        yield "\n".join(["```{toctree}", ":hidden:", f":caption: {part}", "", *pages, "```"])
