"""The chapters: their titles, ideas and exercises, what they build on, and the links between
them."""

from pathlib import Path

import pytest

from chapters import check
from chapters.contents import CHAPTERS, NOTEBOOKS, line_on, standing
from course_utils import progress


def test_every_notebook_is_a_chapter_and_its_title_agrees():
    files = {chapter.file: chapter for chapter in CHAPTERS}
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        assert notebook.name in files
        assert (
            f"# {files[notebook.name].number} · {files[notebook.name].title}"
            in notebook.read_text()
        )


def test_an_idea_builds_on_ideas_before_it():
    numbers = [chapter.number for chapter in CHAPTERS]
    assert numbers == sorted(set(numbers))
    before: list[str] = []
    for chapter in CHAPTERS:
        assert 2 <= len(chapter.ideas) <= 3, chapter
        for idea in chapter.ideas:
            assert idea.name not in before
            assert set(idea.builds_on) <= set(before), idea
            before.append(idea.name)


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


def test_progress_shows_what_was_passed(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    progress.record("layer_norm", True)
    assert set(progress.passed()) == {"layer_norm"}
    words, link = standing(progress.passed(), "layer_norm")
    assert words.startswith("1 of ")
    assert words.endswith("passed, next: centre in 00")
    assert link == ("centre in 00", "00_start_here.ipynb#Your-turn:-centre")
    of_the_same_chapter, _ = standing({"layer_norm_backward"}, "layer_norm_backward")
    assert of_the_same_chapter.endswith("next: backward_steps in 05")
    everything = {exercise for chapter in CHAPTERS for exercise in chapter.exercises}
    assert standing(everything, "centre")[1] is None


@pytest.mark.usefixtures("all_written")
def test_a_chapter_ends_with_a_link_to_each_that_builds_on_it():
    for chapter in CHAPTERS:
        line = line_on(chapter)
        assert chapter.link not in line
        assert all(line.count(other.link) <= 1 for other in CHAPTERS)
        assert all(other.link in line for other in CHAPTERS if chapter.number in other.builds_on)
