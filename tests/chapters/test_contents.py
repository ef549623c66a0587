"""The text around the lessons: chapters, claims, the ledger, the words, the progress bar."""

import ast
import json
import pkgutil
import re
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from disturbing import Disturber
from matplotlib.patches import FancyBboxPatch
from nbformat.v4 import new_code_cell, new_notebook, new_output

from chapters import check, known_claims
from chapters import contents as chapters
from chapters.c00_start_here.figures import course_map
from chapters.c18_on_trial import ledger
from chapters.c20_words_and_conventions.glossary import ENTRIES
from chapters.contents import CHAPTERS, NOTEBOOKS, Chapter, chapter_of, line_back, line_on
from chapters.sources import LISTED, OWN_WORDS, WRITE_UPS, links_in, works_named
from course_utils import Claims, Table, progress, progress_bar
from course_utils import claims as book_claims
from course_utils.claims import VERDICTS, Card, Claim
from course_utils.progress_bar import ProgressBar
from tools.ledger import claims_in, collect, ledger_text
from tools.lint import Page
from tools.notebooks import find_notebooks


@pytest.fixture
def all_written(monkeypatch):
    monkeypatch.setattr(Chapter, "is_written", True)


def test_every_notebook_is_a_chapter_and_its_title_agrees():
    files = {chapter.file: chapter for chapter in CHAPTERS}
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        assert notebook.name in files
        assert f"# {files[notebook.name].number} · {files[notebook.name].title}" in notebook.read_text()


def test_an_idea_builds_on_ideas_before_it():
    assert [chapter.number for chapter in CHAPTERS] == [f"{number:02d}" for number in range(21)]
    before: list[str] = []
    for chapter in CHAPTERS:
        assert 2 <= len(chapter.ideas) <= 3, chapter
        for idea in chapter.ideas:
            assert idea.name not in before
            assert set(idea.builds_on) <= set(before), idea
            before.append(idea.name)


def test_a_chapter_builds_on_the_chapters_of_its_ideas_and_not_on_itself():
    assert chapter_of("08").builds_on == ("04", "05")
    assert chapter_of("12").builds_on == ("00",)
    assert chapter_of("00").builds_on == ()


def test_the_exercises_of_a_written_chapter_are_checks_that_it_uses():
    for chapter in CHAPTERS:
        for exercise in chapter.exercises if chapter.is_written else ():
            assert hasattr(check, exercise)
            assert f"check.{exercise}({exercise})" in (NOTEBOOKS / chapter.file).read_text()


def test_the_readme_lists_every_written_chapter_as_it_is_described_here():
    readme = (Path(NOTEBOOKS).parent / "README.md").read_text().splitlines()
    listed = [line for line in readme if "](notebooks/" in line and line.startswith("| ")]
    assert listed == [
        f"| {chapter.number} | [{chapter.title}](notebooks/{chapter.file}) | {chapter.about} |"
        for chapter in CHAPTERS
        if chapter.is_written
    ]


def test_contents_link_to_every_written_chapter():
    assert [row[1] for row in chapters.contents().rows] == [chapter.link for chapter in CHAPTERS if chapter.is_written]
    assert '<a href="02_layer_norm.ipynb">02 Layer norm</a>' in chapters.contents()._repr_html_()


def test_progress_shows_what_was_passed(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    progress.record("layer_norm", True)
    assert set(progress.passed()) == {"layer_norm"}
    words = chapters.standing(progress.passed())
    assert words.startswith("1 of ")
    assert words.endswith("passed, next: centre in 00")


def test_a_chapter_begins_with_links_to_what_it_builds_on():
    assert line_back(chapter_of("00")) == "Builds on nothing but a little Python and PyTorch."
    assert line_back(chapter_of("02")) == "Builds on [01 Why normalize](01_why_normalize.ipynb)."
    names = ("[06 The family](06_the_family.ipynb), [13 RoPE]", "and [14 Scaling RoPE]")
    assert all(name in line_back(chapter_of("16")) for name in names)


@pytest.mark.usefixtures("all_written")
def test_a_chapter_ends_with_links_to_the_next_one_and_to_others_that_build_on_it():
    assert line_on(chapter_of("03")).startswith("**Next:** [04 Running statistics](04_running_statistics.ipynb): ")
    assert line_on(CHAPTERS[-1]) == "**Map:** [00 Start here](00_start_here.ipynb)"
    for chapter in CHAPTERS:
        line = line_on(chapter)
        assert chapter.link not in line
        assert all(line.count(other.link) <= 1 for other in CHAPTERS)
        assert all(other.link in line for other in CHAPTERS if chapter.number in other.builds_on)


@pytest.mark.usefixtures("all_written")
def test_the_map_has_a_card_for_every_chapter_with_its_words_inside_and_no_two_overlap():
    figure = course_map(CHAPTERS)
    figure.draw_without_rendering()
    cards = [box.get_window_extent() for box in figure.axes[0].patches if isinstance(box, FancyBboxPatch)]
    assert len(cards) == len(CHAPTERS)
    assert all(not a.overlaps(b) for i, a in enumerate(cards) for b in cards[:i])
    words = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    titles = [word for word in words if word[:2].isdigit()]
    assert len(titles) == len(CHAPTERS)
    for word in (*titles, *(idea.name for chapter in CHAPTERS for idea in chapter.ideas)):
        place = words[word]
        assert any(c.x0 < place.x0 and place.x1 < c.x1 and c.y0 < place.y0 < c.y1 for c in cards), word


TRIED = {
    "warm": Claim("warm", "water < ice", "holds", found="{} K, {:.1f} in {}", source="Ba et al. 2016 §1; S3"),
    "dry": Claim("dry", "water is dry", "does not hold"),
    "ice": Claim("ice", "water is hard", "holds if", condition="T < 273 K"),
}


@pytest.fixture
def tried(monkeypatch):
    monkeypatch.setattr(book_claims, "load", lambda file: TRIED)
    return Claims(Path("claims.toml"), links_in)


@pytest.mark.parametrize(
    ("key", "evidence", "named"),
    [("dry", {"evidence": 1 > 2}, "evidence"), ("ice", {"holds": True, "fails": 1 > 2}, "fails"),
     ("ice", {"holds": np.bool_(False), "fails": torch.tensor(True)}, "holds")],
)  # fmt: skip
def test_false_evidence_fails_the_cell_and_records_nothing(tried, key, evidence, named):
    with pytest.raises(AssertionError, match=f"{named} is false for «{TRIED[key].sentence}»"):
        tried.test(key, **evidence, number=0.3)
    assert list(tried) == []


@pytest.mark.parametrize(
    ("key", "evidence", "message"),
    [
        ("ice", {"evidence": True}, "is tested by holds and fails: got evidence"),
        ("ice", {"holds": True}, "fails must be True or False"),
        ("dry", {"holds": True, "fails": True}, "is tested by evidence: got holds and fails"),
        *(("dry", {"evidence": value}, "evidence must be True or False, or a tensor of one element")
          for value in ((1 > 2, "a remark"), "1 > 2", lambda: False, torch.zeros(2), None)),
    ],
)  # fmt: skip
def test_what_cannot_fail_is_no_evidence(tried, key, evidence, message):
    with pytest.raises(TypeError, match=message):
        tried.test(key, **evidence)


def test_a_card_has_the_words_of_the_claim_and_the_numbers_of_the_cell(tried, capsys):
    for kelvin in (1.0, 273.15):
        tried.test("warm", True, number=(kelvin, torch.tensor(0.25), 3))  # running a cell again replaces its claim
    (card,) = tried
    assert repr(card) == "● holds: water < ice [273 K, 0.2 in 3]" == capsys.readouterr().out.splitlines()[-1]
    html = card._repr_html_()
    assert html.startswith('<div id="claim-warm"')
    assert "water &lt; ice" in html
    assert (
        '<a href="https://arxiv.org/abs/1607.06450" target="_blank" style="color:inherit">Ba et al. 2016</a> §1; '
        in html
    )
    assert "● holds  water < ice  273 K, 0.2 in 3" in repr(tried.table())
    assert tried.table()._repr_html_().startswith("<details><summary>1 claims")
    tried.test("ice", holds=True, fails=True)
    assert "holds if T < 273 K: water is hard" in capsys.readouterr().out


def test_a_disturbance_makes_evidence_false_that_can_be_and_no_other(tried):
    cell = """
x = torch.arange(1, 5) / 4
def twice(x):
    return 2 * x
claims.test("warm", torch.equal(twice(x), x + x))
claims.test("dry", (twice(x) - twice(x)).abs().max() < 1e-6)
"""
    found = {key: kind for key, _, kind in Disturber({"claims": tried, "torch": torch}).run(cell)}
    assert found == {"warm": "factors", "dry": ""}


def test_an_entry_says_what_its_verdict_asks_for():
    for chapter in CHAPTERS:
        for claim in known_claims(chapter.number).values():
            assert claim.verdict in VERDICTS, claim
            assert bool(claim.condition) == (claim.verdict in book_claims.CONDITIONED), claim
            assert claim.source or not claim.quote, claim
            assert "TODO" not in f"{claim.condition}{claim.found}", claim


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (-0.0, "0"), (1.0, "1"), (0.12345, "0.123"), (1e-5, "1.0e-05"), (12345.6, "12,346"), (1234, "1,234"),
     (True, "yes"), ("a", "a"), (float("nan"), "NaN"), (float("inf"), "inf"), (-3.14159, "-3.14"), (2e7, "2.0e+07")],
)  # fmt: skip
def test_numbers_are_shown_to_three_digits(value, shown):
    assert Table(("column",), [(value,)]).cells == [[shown]]


def test_a_row_of_the_wrong_length_is_an_error():
    with pytest.raises(ValueError, match="got 1 cells for 2 columns"):
        Table(("a", "b"), [(1,)])


BY_TERM = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.term)


def text_of(number: str) -> str:
    cells = json.loads((NOTEBOOKS / chapter_of(number).file).read_text())["cells"]
    return re.sub(r"[*`]", "", "\n".join("".join(cell["source"]) for cell in cells))  # "the *half* layout"


TEXTS = {number: text_of(number) for entry in ENTRIES for number in entry.chapters}


def test_no_term_stands_twice_and_all_are_in_the_order_of_the_alphabet():
    terms = [entry.term.casefold() for entry in ENTRIES if entry.term != "ε"]
    assert terms == sorted(set(terms))
    assert len(terms) == len(ENTRIES) - 1


@BY_TERM
def test_the_chapters_of_a_term_exist_and_speak_of_it(entry):
    spellings = {entry.term, entry.term[0].upper() + entry.term[1:]}
    spaced = (re.escape(spelling).replace("\\-", " ").replace("\\ ", " ") for spelling in spellings)
    word = "|".join(spelling.replace(" ", r"[\s_-]+") for spelling in spaced)
    for number in entry.chapters:
        assert chapter_of(number).is_written
        assert re.search(rf"(?<![A-Za-z])(?:{word})", TEXTS[number]), f"{entry.term} is not in chapter {number}"


@BY_TERM
def test_a_symbol_is_the_one_that_the_first_chapter_writes(entry):
    if entry.symbol:
        formulas = re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", TEXTS[entry.chapters[0]], re.DOTALL)
        symbol = re.compile(rf"(?<![A-Za-z\\]){re.escape(entry.symbol)}(?![A-Za-z])")
        assert any(symbol.search(formula.replace("{x}", " x")) for formula in formulas)


def test_a_symbol_means_one_thing_in_a_chapter():
    meanings: dict[tuple[str, str], str] = {}
    for entry in ENTRIES:
        for number in entry.chapters if entry.symbol else ():
            other = meanings.setdefault((entry.symbol, number), entry.term)
            assert other == entry.term, f"${entry.symbol}$ in chapter {number} is {other} and {entry.term}"


@pytest.mark.parametrize("name", sorted({name for entry in ENTRIES for name in entry.names}))
def test_a_name_leads_to_something_that_is_installed(name):
    path, _, key = name.partition("[")
    found = pkgutil.resolve_name(path)
    if key:
        assert key.strip("]'") in found


CLAIMS = ledger.load()


def test_the_ledger_says_what_the_notebooks_say_now():
    entries, findings = collect(find_notebooks())
    assert [str(finding) for finding in findings] == []
    assert ledger.LEDGER.read_text(encoding="utf-8") == ledger_text(entries), "make ledger, then make run NB=18"


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: f"{listed.source}-{listed.says[:40]}")
def test_what_a_write_up_says_is_answered_by_claims_that_ran(listed):
    assert listed.answered_by
    for name in listed.answered_by:
        assert name in CLAIMS, f"{listed.source} says «{listed.says}»: no claim {name} ran"
        assert listed.source in CLAIMS[name].works


@pytest.mark.parametrize("work", WRITE_UPS, ids=lambda work: work.name)
def test_a_claim_that_names_a_write_up_answers_a_sentence_of_it(work):
    answered = {name for listed in LISTED if listed.source == work.name for name in listed.answered_by}
    named = {name for name, entry in CLAIMS.items() if work.name in works_named(entry.claim.source)}
    assert named <= answered


def test_every_source_that_a_claim_names_is_known():
    unknown = {e.claim.source for e in CLAIMS.values() if works_named(e.claim.source) == ["this course"]} - OWN_WORDS
    assert unknown == set(), "add the work to chapters/sources.toml"


@pytest.mark.parametrize(
    ("source", "works"),
    [
        ("Kingma & Ba 2015, §3", ["Kingma & Ba 2015"]),  # and not Ba et al.
        ("S0, S1; Wu and He 2018 §1", ["S0", "S1", "Wu & He 2018"]),
        ("Xiong et al. 2020; Chen et al. 2023", ["Xiong et al. 2020", "Chen et al. 2023"]),  # each with its own year
        ("YaRN §3.2; jquesnelle/yarn", ["Peng et al. 2023", "libraries"]),
        ("S01", ["this course"]),
    ],
)
def test_works_are_found_in_the_words_of_a_claim(source, works):
    assert works_named(source) == works


SOURCE = 'claims.test("dry", x.max() < 1, number=x.max())'


def notebook(source=SOURCE, cards=("dry",), tags=()):
    cell = new_code_cell(source, id="cell", metadata={"tags": list(tags)})
    for card in (Card(TRIED[key], (0.5, 1.5, 2)) for key in cards):
        cell.outputs.append(new_output("display_data", {"text/html": card._repr_html_(), "text/plain": repr(card)}))
    return new_notebook(cells=[cell])


def read(book: nbformat.NotebookNode, folder: Path) -> list:
    path = folder / "02_layer_norm.ipynb"
    nbformat.write(book, path)
    return list(claims_in(Page.read(path)))


@pytest.fixture
def only_dry(monkeypatch):
    monkeypatch.setattr(book_claims, "load", lambda file: {"dry": TRIED["dry"]})


@pytest.mark.usefixtures("only_dry")
def test_an_entry_is_the_call_and_the_card_that_it_showed(tmp_path):
    (entry,) = read(notebook(), tmp_path)
    assert (entry.chapter, entry.cell, entry.key, entry.found) == ("02", "cell", "dry", "0.5, 1.5, 2")
    assert entry.claim is TRIED["dry"]
    assert entry.link == "02_layer_norm.ipynb#cell-id=cell"


@pytest.mark.usefixtures("only_dry")
@pytest.mark.parametrize(
    ("book", "message"),
    [
        (notebook(cards=()), "tests dry and showed nothing"),
        (notebook(SOURCE.replace('"dry"', 'f"{i}"')), "the key of a claim is computed"),
        (notebook(SOURCE.replace("x.max() < 1", "True")), "the evidence of dry is a constant"),
        (notebook(SOURCE.replace("number=x.max()", "number=0.5")), "the number of dry is written out"),
        (notebook(SOURCE.replace("dry", "warm"), ["warm"]), "warm has no entry in c02_layer_norm/claims.toml"),
        (notebook(tags=["nbval-ignore-output"]), "nothing would notice another verdict"),
        (notebook(f"{SOURCE}\n{SOURCE}", ["dry", "dry"]), "test each claim once"),
        (notebook("", ()), "dry in c02_layer_norm/claims.toml is tested in no cell"),
    ],
)
def test_a_claim_that_did_not_run_as_it_is_written_is_a_finding(book, message, tmp_path):
    findings = [one for one in read(book, tmp_path) if not isinstance(one, ledger.Entry)]
    assert any(message in finding.message for finding in findings)
    assert {finding.rule for finding in findings} == {"claim"}


def test_a_card_of_another_verdict_is_a_finding(monkeypatch, tmp_path):
    book = notebook()
    monkeypatch.setattr(book_claims, "load", lambda file: {"dry": replace(TRIED["dry"], verdict="holds")})
    (finding,) = read(book, tmp_path)
    assert "dry has another verdict or sentence in c02_layer_norm/claims.toml" in finding.message


@pytest.fixture
def shown(monkeypatch):
    """Stands in for a notebook's output area: what it showed."""
    shown = []
    handle = SimpleNamespace(update=lambda bundle, raw: shown.append(bundle))

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress_bar, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.0)
    return shown


def test_in_a_notebook_the_bar_moves_and_leaves_its_title(shown):
    with ProgressBar("training: 4 runs", 4) as bar:
        bar.show(0)
        bar.show(1)
    first, start, one, last = (bundle["text/html"] for bundle in shown)
    assert 'value="0" max="4"' in start
    assert 'value="1" max="4"' in one
    assert "s left" in one
    assert first == last == "<div>training: 4 runs </div>"


def test_an_inner_loop_does_not_flood_the_notebook_and_an_interruption_takes_the_bar_away(shown, monkeypatch):
    def work():
        with ProgressBar("training", 1000) as bar:
            for i in range(999):
                bar.show(i)
            raise KeyboardInterrupt

    monkeypatch.setattr(progress_bar, "EVERY_S", 60.0)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(shown) == 3
    assert "progress" not in shown[-1]["text/html"]


def test_in_a_terminal_it_is_on_stderr_and_full_at_the_end(capsys):
    with ProgressBar("training", 3) as bar:
        bar.show(1)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "training: 100%" in captured.err


def test_the_package_shows_its_names_and_rooms_and_each_opens():
    import course_utils

    folders = {path.parent.name for path in Path(course_utils.__file__).parent.glob("*/__init__.py")}
    assert folders <= {*dir(course_utils), "book", "recorded"}
    for name in dir(course_utils):
        assert getattr(course_utils, name) is not None


def test_imports_run_one_way_between_the_rooms():
    root = Path(ledger.__file__).parent.parent
    modules = {".".join(path.relative_to(root.parent).with_suffix("").parts): path for path in root.rglob("*.py")}
    uses: dict[str, set[str]] = {}
    for name, path in modules.items():
        room = uses.setdefault(name.split(".")[1], set())
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                assert not node.module.startswith("tools"), path
                first, _, rest = node.module.partition(".")
                if first == "course_utils":
                    room |= {rest.split(".")[0]} if rest else {alias.name for alias in node.names}
        room.discard(name.split(".")[1])
    TopologicalSorter(uses).prepare()  # raises CycleError, which names the circle
