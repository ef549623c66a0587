"""The ledger: made from lines that ran, complete for what the write-ups say, and the same as the notebooks say now."""

from collections import Counter
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from course_utils.book import ledger
from course_utils.book.claims import VERDICTS
from course_utils.book.sources import LISTED, OWN_WORDS, WORKS, WRITE_UPS, works_named
from tools.ledger import claims_in, collect, ledger_text
from tools.lint import Page
from tools.notebooks import find_notebooks

ENTRIES = ledger.load()
PAPERS = """
    Ioffe & Szegedy 2015, Ba et al. 2016, Ulyanov et al. 2016, Wu & He 2018, Zhang & Sennrich 2019,
    Santurkar et al. 2018, Xiong et al. 2020, Wu & Johnson 2021, Henry et al. 2020, Dehghani et al. 2023,
    Zhu et al. 2025, Chan et al. 1979, Vaswani et al. 2017, Shaw et al. 2018, Raffel et al. 2020, Press et al. 2022,
    Su et al. 2021, Chen et al. 2023, Xiong et al. 2023, Peng et al. 2023, Grattafiori et al. 2024, Ding et al. 2024,
    Shang et al. 2025, Kazemnejad et al. 2023, Feng et al. 2024
"""


def test_the_ledger_says_what_the_notebooks_say_now():
    entries, findings = collect(find_notebooks())
    assert [str(finding) for finding in findings] == []
    assert ledger.LEDGER.read_text(encoding="utf-8") == ledger_text(entries), "make ledger, then make run NB=16"


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: f"{listed.source}-{listed.says[:40]}")
def test_what_a_write_up_says_is_answered_by_claims_that_ran(listed):
    assert listed.answered_by
    for name in listed.answered_by:
        assert name in ENTRIES, f"{listed.source} says «{listed.says}»: no claim {name} ran"
        assert listed.source in ENTRIES[name].works


@pytest.mark.parametrize("work", WRITE_UPS, ids=lambda work: work.name)
def test_a_claim_that_names_a_write_up_answers_a_sentence_of_it(work):
    answered = {name for listed in LISTED if listed.source == work.name for name in listed.answered_by}
    named = {name for name, entry in ENTRIES.items() if work.name in works_named(entry.source)}
    assert named <= answered


def test_there_are_at_least_sixty_claims_and_every_write_up_and_paper_has_its_own():
    assert len(ENTRIES) >= 60
    groups = {work.name: group for work, group in ledger.by_work(ENTRIES.values()).items()}
    papers = [" ".join(paper.split()) for paper in PAPERS.split(",")]
    assert [name for name in [*(work.name for work in WRITE_UPS), *papers] if not groups.get(name)] == []


def test_every_source_that_a_claim_names_is_known():
    unknown = {e.source for e in ENTRIES.values() if works_named(e.source) == ["this course"]} - OWN_WORDS
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


def test_names_of_works_are_unique():
    names = [work.name for work in WORKS]
    assert len(set(names)) == len(names)


def test_a_claim_with_two_sources_counts_once_in_all():
    names = ("02:ln-train-eval", "02:ln-no-state", "02:eps-1e-12-safe")
    table = ledger.counts_table([ENTRIES[name] for name in names])
    assert table.rows == [
        ("S0", 2, 2, 0, 0),
        ("S1", 1, 1, 0, 0),
        ("S2", 1, 0, 1, 0),
        ("all, each counted once", 3, 2, 1, 0),
    ]


def test_the_table_counts_every_claim_of_the_ledger_under_each_of_its_kinds():
    kinds = {"S0", "S1", "S2", "S3", "S4", "libraries", "this course"}
    expected = Counter()
    for entry in ENTRIES.values():
        expected.update({work if work in kinds else "papers" for work in entry.works})
    rows = {row[0]: row for row in ledger.counts_table(iter(ENTRIES.values())).rows}
    assert rows.pop("all, each counted once")[1] == len(ENTRIES)
    assert {kind: row[1] for kind, row in rows.items()} == expected
    assert all(row[1] == sum(row[2:]) for row in rows.values())


def test_the_groups_of_works_hold_the_claims_that_come_from_them_and_no_others():
    entries = [ledger.Entry("02", "cell", name, "", source, "x", "holds", "") for name, source in
               (("a", "Ba et al. 2016"), ("b", "Ba et al. 2016; Su et al. 2021"), ("c", "Su et al. 2021"))]  # fmt: skip
    groups = ledger.by_work(iter(entries))
    assert {work.name: [entry.key for entry in group] for work, group in groups.items()} == {
        "Ba et al. 2016": ["a", "b"],
        "Su et al. 2021": ["b", "c"],
    }


def test_a_claim_without_a_source_that_answers_a_write_up_is_no_longer_the_courses_own():
    answering = ledger.Entry("05", "cell", "ln-backward-todo", "the backward pass", "", "x", "holds", "")
    assert answering.works == ("S0",)
    assert ledger.Entry("05", "cell", "another", "the backward pass", "", "x", "holds", "").works == ("this course",)


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


@pytest.mark.parametrize("source", ["%%bash\nls", "Claims()", "Claims(chapter='03')"])
def test_a_cell_that_proves_nothing_has_no_claims(source, tmp_path):
    assert read(notebook(source, "before\n"), tmp_path) == []


def test_what_is_written_to_stderr_is_no_evidence_that_it_ran(tmp_path):
    book = notebook()
    book.cells[0].outputs[0].name = "stderr"
    (finding,) = read(book, tmp_path)
    assert "proves quiet and printed nothing" in finding.message


def test_entries_and_findings_are_told_apart(tmp_path):
    book = notebook(TWICE, PRINTED + "claim quiet: does not hold\n")
    nbformat.write(book, tmp_path / "02_layer_norm.ipynb")
    entries, findings = collect([tmp_path / "02_layer_norm.ipynb"])
    assert ([entry.key for entry in entries], len(findings)) == (["quiet"], 1)


def test_each_verdict_is_read_whole(tmp_path):
    for verdict in VERDICTS:
        book = notebook(SOURCE.replace("does not hold", verdict), PRINTED.replace("does not hold", verdict))
        (entry,) = read(book, tmp_path)
        assert (entry.verdict, entry.number) == (verdict, "0.5 (of 1)")
