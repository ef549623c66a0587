"""The text around the lessons: chapters, claims, the ledger, the words, the progress bar."""

import json
import pkgutil
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib.patches import FancyBboxPatch
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course_utils import Claims, Table, check, plots
from course_utils.book import chapters, ledger, progress, progress_bar
from course_utils.book.chapters import CHAPTERS, NOTEBOOKS, Chapter, Idea, chapter_of, line_back, line_on
from course_utils.book.glossary import ENTRIES
from course_utils.book.progress_bar import ProgressBar
from course_utils.book.sources import LISTED, OWN_WORDS, WRITE_UPS, works_named
from tools.ledger import claims_in, collect, ledger_text
from tools.lint import Page
from tools.notebooks import find_notebooks

NOWHERE = Chapter("99", "nowhere", "Nowhere", "Start", 0, "nothing")


@pytest.fixture
def all_written(monkeypatch):
    monkeypatch.setattr(Chapter, "is_written", True)


def test_every_notebook_is_a_chapter_and_its_title_agrees():
    files = {chapter.file: chapter for chapter in CHAPTERS}
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        assert notebook.name in files
        assert f"# {files[notebook.name].number} · {files[notebook.name].title}" in notebook.read_text()


def test_an_idea_builds_on_ideas_before_it():
    assert [chapter.number for chapter in CHAPTERS] == [f"{n:02}" for n in range(19)]
    before: list[str] = []
    for chapter in CHAPTERS:
        assert 2 <= len(chapter.ideas) <= 3, chapter
        for idea in chapter.ideas:
            assert idea.name not in before
            assert set(idea.builds_on) <= set(before), idea
            before.append(idea.name)


def test_a_chapter_builds_on_the_chapters_of_its_ideas_and_not_on_itself():
    assert chapter_of("08").builds_on == ("04", "05")
    assert chapter_of("11").builds_on == ("00",)
    assert chapter_of("00").builds_on == ()
    lost = Chapter("99", "lost", "Lost", "Start", 0, "nothing", (Idea("a", ("an idea of no chapter",)),))
    with pytest.raises(ValueError, match="'an idea of no chapter', found in none"):
        _ = lost.builds_on


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


def test_contents_link_to_every_written_chapter_and_name_a_part_once():
    rows = chapters.contents().rows
    assert [row[1] for row in rows] == [chapter.link for chapter in CHAPTERS if chapter.is_written]
    assert [row[0] for row in rows if row[0]] == ["Start", "Normalization", "Speed", "Position", "Use it"]
    assert '<a href="02_layer_norm.ipynb">02 Layer norm</a>' in chapters.contents()._repr_html_()


def test_progress_shows_what_was_passed(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    progress.record("layer_norm", True)
    rows = {row[2]: row[3] for row in chapters.progress_table().rows}
    assert rows["layer_norm"] == "passed"
    assert rows["batch_norm"] == "open"


def test_a_chapter_begins_with_links_to_what_it_builds_on():
    assert line_back(chapter_of("00")) == "Builds on nothing but a little Python and PyTorch."
    assert line_back(chapter_of("02")) == "Builds on [01 Why normalize](01_why_normalize.ipynb)."
    assert line_back(chapter_of("15")) == (
        "Builds on [06 The family](06_the_family.ipynb), [12 RoPE](12_rope.ipynb) and "
        "[13 Scaling RoPE](13_scaling_rope.ipynb)."
    )


@pytest.mark.usefixtures("all_written")
def test_a_chapter_ends_with_links_to_the_next_one_and_to_others_that_build_on_it():
    assert line_on(chapter_of("03")) == (
        f"**Next:** [04 Running statistics](04_running_statistics.ipynb): {chapter_of('04').about} · "
        "**Also from here:** [05 Backward by hand](05_backward_by_hand.ipynb), [06 The family](06_the_family.ipynb) · "
        "**Back:** [02 Layer norm](02_layer_norm.ipynb) · **Map:** [00 Start here](00_start_here.ipynb) · "
        "**Words:** [18 Words and conventions](18_words_and_conventions.ipynb)"
    )
    assert line_on(CHAPTERS[-1]) == "**Map:** [00 Start here](00_start_here.ipynb)"
    for chapter in CHAPTERS:
        line = line_on(chapter)
        assert chapter.link not in line
        assert all(line.count(other.link) <= 1 for other in CHAPTERS)
        assert all(other.link in line for other in CHAPTERS if chapter.number in other.builds_on)


def boxes(figure):
    return [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]


@pytest.mark.usefixtures("all_written")
def test_the_map_has_a_card_for_every_chapter_with_its_words_inside_and_no_two_overlap():
    figure = plots.course_map(CHAPTERS)
    figure.draw_without_rendering()
    cards = [box.get_window_extent() for box in boxes(figure)]
    assert len(cards) == len(CHAPTERS)
    assert all(not a.overlaps(b) for i, a in enumerate(cards) for b in cards[:i])
    words = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    for chapter in CHAPTERS:
        assert any(word.startswith(chapter.number) for word in words)
        for idea in chapter.ideas:
            word = words[idea.name]
            assert any(card.x0 < word.x0 and word.x1 < card.x1 and card.y0 < word.y0 < card.y1 for card in cards), idea
    titles = [words[line] for line in words if line[:2].isdigit()]
    assert len(titles) == len(CHAPTERS)
    assert all(any(card.x0 < title.x0 and title.x1 < card.x1 for card in cards) for title in titles)
    assert all(figure.bbox.x0 <= word.x0 and word.x1 <= figure.bbox.x1 for word in words.values())


def test_false_evidence_fails_the_cell_and_records_nothing():
    claims = Claims("02")
    with pytest.raises(AssertionError, match="the evidence does not support «water is dry»"):
        claims.prove("dry", "water is dry", 1 > 2, number=0.3)
    assert list(claims) == []


def test_running_a_cell_again_replaces_its_claim(capsys):
    claims = Claims("02")
    for number in (0.25, 0.5):
        claims.prove("half", "a number", True, number=number, source="Ba et al. 2016 §1")
    assert [claim.number for claim in claims] == ["0.5"]
    assert capsys.readouterr().out.splitlines()[-1] == "claim half: holds (0.5)"
    claims.prove("whole", "no number", True)
    assert capsys.readouterr().out == "claim whole: holds\n"


def test_the_table_shows_every_claim_with_its_verdict_and_number():
    claims = Claims("02")
    claims.prove("a", "x < y", True, number=1.5e-7, source="S3")
    claims.prove("b", "<script>", True, verdict="does not hold")
    text, html = repr(claims.table()), claims.table()._repr_html_()
    assert "x < y" in text
    assert "1.5e-07" in text
    assert "&lt;script&gt;" in html
    assert "<script>" not in html


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


@pytest.mark.parametrize(
    "evidence",
    [(1 > 2, "a remark"), [False], "1 > 2", lambda: False, torch.zeros(2), torch.zeros(0), None],
    ids=["tuple", "list", "string", "function", "tensor", "empty tensor", "None"],
)
def test_what_is_true_whatever_is_in_it_is_no_evidence(evidence):
    with pytest.raises(TypeError, match="evidence must be True or False, or a tensor of one element: got "):
        Claims("02").prove("a", "b", evidence)


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
    word = "|".join(
        re.escape(spelling).replace("\\-", " ").replace("\\ ", " ").replace(" ", r"[\s_-]+") for spelling in spellings
    )
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
    assert ledger.LEDGER.read_text(encoding="utf-8") == ledger_text(entries), "make ledger, then make run NB=16"


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: f"{listed.source}-{listed.says[:40]}")
def test_what_a_write_up_says_is_answered_by_claims_that_ran(listed):
    assert listed.answered_by
    for name in listed.answered_by:
        assert name in CLAIMS, f"{listed.source} says «{listed.says}»: no claim {name} ran"
        assert listed.source in CLAIMS[name].works


@pytest.mark.parametrize("work", WRITE_UPS, ids=lambda work: work.name)
def test_a_claim_that_names_a_write_up_answers_a_sentence_of_it(work):
    answered = {name for listed in LISTED if listed.source == work.name for name in listed.answered_by}
    named = {name for name, entry in CLAIMS.items() if work.name in works_named(entry.source)}
    assert named <= answered


def test_every_source_that_a_claim_names_is_known():
    unknown = {e.source for e in CLAIMS.values() if works_named(e.source) == ["this course"]} - OWN_WORDS
    assert unknown == set(), "add the work to course_utils/sources.py"


@pytest.mark.parametrize(
    ("source", "works"),
    [
        ("Kingma & Ba 2015, §3", ["Kingma & Ba 2015"]),  # and not Ba et al.
        ("S0, S1; Wu and He 2018 §1", ["S0", "S1", "Wu & He 2018"]),
        ("Vaswani 2017; Raffel 2020", ["Vaswani et al. 2017", "Raffel et al. 2020"]),
        ("Xiong et al. 2023 §4.1", ["Xiong et al. 2023"]),  # and not their namesake of 2020
        ("Xiong et al. 2020; Chen et al. 2023", ["Xiong et al. 2020", "Chen et al. 2023"]),  # each with its own year
        ("YaRN §3.2; jquesnelle/yarn", ["Peng et al. 2023", "libraries"]),
        ("S01", ["this course"]),
    ],
)
def test_works_are_found_in_the_words_of_a_claim(source, works):
    assert works_named(source) == works


def test_the_table_counts_every_claim_of_the_ledger_under_each_of_its_kinds():
    kinds = {"S0", "S1", "S2", "S3", "S4", "libraries", "this course"}
    expected = Counter()
    for entry in CLAIMS.values():
        expected.update({work if work in kinds else "papers" for work in entry.works})
    rows = {row[0]: row for row in ledger.counts_table(iter(CLAIMS.values())).rows}
    assert rows.pop("all, each counted once")[1] == len(CLAIMS)
    assert {kind: row[1] for kind, row in rows.items()} == expected
    assert all(row[1] == sum(row[2:]) for row in rows.values())


SOURCE = """claims = Claims("02")
claims.prove(
    "quiet", "quiet rows stay quiet", x.max()
    < 1, number=0.5, verdict="does not hold", source="S0")"""
PRINTED = "before\nclaim quiet: does not hold (0.5 (of 1))\nafter\n"


def notebook(source=SOURCE, printed=PRINTED, tags=()):
    cell = new_code_cell(source, id="cell", metadata={"tags": list(tags)})
    cell.outputs = [new_output("stream", name="stdout", text=printed)]
    return new_notebook(cells=[cell])


def read(book: nbformat.NotebookNode, folder: Path) -> list:
    path = folder / "02_layer_norm.ipynb"
    nbformat.write(book, path)
    return list(claims_in(Page.read(path)))


def test_an_entry_is_the_call_and_the_line_that_it_printed(tmp_path):
    (entry,) = read(notebook(), tmp_path)
    assert entry == ledger.Entry(
        chapter="02",
        cell="cell",
        key="quiet",
        statement="quiet rows stay quiet",
        source="S0",
        evidence="x.max() < 1",
        verdict="does not hold",
        number="0.5 (of 1)",
    )
    assert entry.link == "02_layer_norm.ipynb#cell-id=cell"
    assert entry.place == "02 Layer norm"


TWICE = SOURCE + '\nclaims.prove("quiet", "quiet rows stay quiet", x < 1, verdict="does not hold")'


@pytest.mark.parametrize(
    ("book", "message"),
    [
        (notebook(printed="before\n"), "proves quiet and printed nothing"),
        (notebook("print('claim quiet: holds')", "claim quiet: holds\n"), "proves nothing and printed quiet"),
        (notebook(printed="claim quiet: holds (0.5)\n"), "written as «does not hold» and ran as «holds»"),
        (notebook(SOURCE.replace('"quiet",', 'f"{i}",'), "claim 0: holds\n"), "key of the claim None computed"),
        (notebook(SOURCE.replace('"quiet",', "3,"), "claim 3: does not hold\n"), "key of the claim None computed"),
        (notebook(SOURCE.replace('"does not hold"', "VERDICTS[2]")), "verdict of the claim quiet computed"),
        (notebook(SOURCE.replace("x.max()\n    < 1", "True")), "the evidence of quiet is a constant"),
        (notebook(tags=["nbval-ignore-output"]), "nothing would notice another verdict"),
        (notebook(TWICE, PRINTED + "claim quiet: does not hold\n"), "quiet is taken in this chapter"),
        (notebook(SOURCE.replace('"02"', '"03"')), "Claims('03') in chapter 02"),
    ],
)  # fmt: skip
def test_a_claim_that_did_not_run_as_it_is_written_is_a_finding(book, message, tmp_path):
    findings = [one for one in read(book, tmp_path) if not isinstance(one, ledger.Entry)]
    assert len(findings) == 1
    assert message in findings[0].message
    assert (findings[0].cell, findings[0].rule) == (0, "claim")


def test_claims_are_taken_in_the_order_in_which_they_are_written(tmp_path):
    source = "if x < 2:\n    claims.prove('first', 'says', x < 2)\nclaims.prove('second', 'says', evidence=x < 3)"
    entries = read(notebook(source, "claim first: holds\nclaim second: holds\n"), tmp_path)
    assert [entry.key for entry in entries] == ["first", "second"]


class Handle:
    """Stands in for a notebook's output area."""

    def __init__(self):
        self.shown = []

    def update(self, bundle, raw):
        self.shown.append(bundle)


@pytest.fixture
def handle(monkeypatch):
    handle = Handle()

    def display(bundle, raw, display_id):
        handle.update(bundle, raw)
        return handle

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(progress_bar, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress_bar, "EVERY_S", 0.0)
    return handle


def test_in_a_notebook_the_bar_moves_and_leaves_its_title(handle):
    with ProgressBar("training: 4 runs", 4) as bar:
        bar.show(0)
        bar.show(1)
    first, start, one, last = (bundle["text/html"] for bundle in handle.shown)
    assert 'value="0" max="4"' in start
    assert "left" not in start
    assert 'value="1" max="4"' in one
    assert "s left" in one
    assert first == last == "<div>training: 4 runs </div>"
    assert {bundle["text/plain"] for bundle in handle.shown} == {"training: 4 runs"}


def test_an_interruption_takes_the_bar_away(handle):
    def work():
        with ProgressBar("training", 4) as bar:
            bar.show(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "progress" not in handle.shown[-1]["text/html"]


def test_an_inner_loop_does_not_flood_the_notebook(handle, monkeypatch):
    monkeypatch.setattr(progress_bar, "EVERY_S", 60.0)
    with ProgressBar("training", 1000) as bar:
        for i in range(1000):
            bar.show(i)
    assert len(handle.shown) == 3


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
