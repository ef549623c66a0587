from pathlib import Path

import pytest
from matplotlib.patches import Circle, FancyBboxPatch, Wedge

from course_utils import check, plots
from course_utils.book import chapters, progress
from course_utils.book.chapters import CHAPTERS, NOTEBOOKS, Chapter, Idea, chapter_of, line_back, line_on

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


def test_an_unknown_number_is_named():
    with pytest.raises(ValueError, match="00 to 18: got '77'"):
        chapter_of("77")


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


def test_no_line_leads_to_a_chapter_that_is_not_written(monkeypatch):
    monkeypatch.setattr(Chapter, "is_written", property(lambda chapter: chapter.number not in ("04", "06", "18")))
    line = line_on(chapter_of("03"))
    assert line.startswith("**Next:** [05 Backward by hand](05_backward_by_hand.ipynb): ")
    assert all(chapter_of(number).link not in line for number in ("04", "06", "18"))


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


@pytest.mark.usefixtures("all_written")
def test_the_map_draws_a_line_for_everything_an_idea_builds_on():
    lines = [patch for patch in plots.course_map(CHAPTERS).axes[0].patches if type(patch).__name__ == "PathPatch"]
    assert len(lines) == sum(len(idea.builds_on) for chapter in CHAPTERS for idea in chapter.ideas)


def test_an_unwritten_chapter_is_drawn_dashed():
    assert [box.get_linestyle() for box in boxes(plots.course_map([CHAPTERS[0], NOWHERE]))] == ["-", "--"]


@pytest.mark.usefixtures("all_written")
def test_progress_on_the_map_differs_by_shape():
    chapter = Chapter("99", "nowhere", "Nowhere", "Start", 0, "nothing", exercises=("one", "two", "three"))

    def marks(*passed):
        figure = plots.course_map([chapter], passed)
        corner = boxes(figure)[0].get_bbox().x1
        faces = [p for p in figure.axes[0].patches if isinstance(p, Circle | Wedge) and p.center[0] == corner]
        ticks = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 3 and line.get_xdata()[1] > 100]
        return [type(face).__name__ for face in faces], len(ticks)

    assert marks() == marks("rope") == (["Circle"], 0)
    assert marks("one", "rope") == (["Circle", "Wedge"], 0)
    assert marks("three", "one", "two") == (["Circle", "Circle"], 1)


def test_the_description_of_the_map_names_everything_on_it():
    text = plots.describe_course([*CHAPTERS, NOWHERE], chapter_of("05").exercises[:2])
    for chapter in CHAPTERS:
        assert all(word in text for word in (chapter.label, *(idea.name for idea in chapter.ideas)))
    assert "(builds on 03, exercises passed: 2 of 3)" in text
    assert "99 Nowhere (not written yet)." in text
