"""The chapters: what the map, the README and the progress table say agrees with what is there."""

from pathlib import Path

from course_utils import chapters, check, plots, progress
from course_utils.chapters import CHAPTERS, NOTEBOOKS, Chapter


def test_every_notebook_is_a_chapter_and_its_title_agrees():
    files = {chapter.file: chapter for chapter in CHAPTERS}
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        assert notebook.name in files
        assert f"# {files[notebook.name].number} · {files[notebook.name].title}" in notebook.read_text()


def test_a_chapter_builds_on_earlier_ones_only():
    numbers = [chapter.number for chapter in CHAPTERS]
    assert numbers == [f"{n:02}" for n in range(18)]
    for chapter in CHAPTERS:
        assert all(earlier < chapter.number for earlier in chapter.builds_on)


def test_the_exercises_of_a_written_chapter_are_checks_that_it_uses():
    for chapter in CHAPTERS:
        for exercise in chapter.exercises if chapter.is_written else ():
            assert hasattr(check, exercise)
            assert f"check.{exercise}({exercise})" in (NOTEBOOKS / chapter.file).read_text()


def test_the_readme_lists_every_written_chapter():
    readme = (Path(NOTEBOOKS).parent / "README.md").read_text()
    for chapter in CHAPTERS:
        assert (f"notebooks/{chapter.file}" in readme) == chapter.is_written, chapter.file


def test_progress_shows_what_was_passed(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path))
    progress.record("layer_norm", True)
    rows = {row[2]: row[3] for row in chapters.progress_table().rows}
    assert rows["layer_norm"] == "passed"
    assert rows["batch_norm"] == "open"


def test_the_map_has_a_box_for_every_chapter_and_no_two_in_one_place():
    figure = plots.course_map(CHAPTERS)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert all(chapter.number in texts for chapter in CHAPTERS)
    places = [text.get_position() for text in figure.axes[0].texts if text.get_text().isdigit()]
    assert len(set(places)) == len(CHAPTERS)


def test_an_unwritten_chapter_is_drawn_dashed():
    written, unwritten = CHAPTERS[0], Chapter("99", "nowhere", "Nowhere", "Start", 0)
    boxes = plots.course_map([written, unwritten]).axes[0].patches
    assert [box.get_linestyle() for box in boxes] == ["-", "--"]
