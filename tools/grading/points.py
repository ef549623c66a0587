"""Points: what an exercise is worth, who is in the class, and a row a learner as Canvas and Moodle import it.

What it is worth stands in a TOML file, where everything may be left out:

    assignment = "Homework 3"  # one column of this name; without it, a column a chapter
    points = 1                 # for an exercise
    partial = 0.5              # the share of them that a wrong answer can earn, as far as its probes are right; else 0
    ready_made = true          # whether an answer that calls a ready-made function counts; else it earns nothing

    [exercises.layer_norm]     # the same for one exercise
    points = 4

The class is a CSV with a line a learner: its columns are name, email and id, or those that Canvas or Moodle export.
"""

import csv
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from course_utils.book.chapters import CHAPTERS, chapter_of
from tools.grading.results import Row, best_of, write_table

__all__ = ["CANVAS", "MOODLE", "Scheme", "Worth", "named", "read_roster", "read_scheme", "write_class"]

CANVAS, MOODLE = "canvas.csv", "moodle.csv"
_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")  # Canvas refuses a file without them
_MOODLE = {"Full name": "Student", "ID number": "SIS User ID", "Email address": "Email"}


@dataclass(frozen=True)
class Worth:
    """What one exercise is worth."""

    points: float = 1.0
    partial: float = 0.0
    ready_made: bool = False

    def __post_init__(self) -> None:
        if not (self.points >= 0 and 0 <= self.partial <= 1):
            raise ValueError(f"points must be 0 or more, and partial from 0 to 1: got {self.points}, {self.partial}")

    def earned(self, row: Row) -> float:
        """Return the points for a result."""
        if row.status == "wrong":
            return self.points * self.partial * row.right / max(row.probes, 1)
        return self.points * (row.status == "passed" or (row.status == "ready-made" and self.ready_made))


@dataclass(frozen=True)
class Scheme:
    """What all exercises are worth, what some are, and the column that they are added up in."""

    assignment: str = ""
    common: Worth = Worth()
    exercises: Mapping[str, Worth] = field(default_factory=dict)

    def of(self, exercise: str) -> Worth:
        """Return what one exercise is worth."""
        return self.exercises.get(exercise, self.common)


def read_scheme(path: Path) -> Scheme:
    """Return the scheme in a TOML file; ValueError for what cannot be meant."""
    common = tomllib.loads(path.read_text(encoding="utf-8"))
    assignment, own = common.pop("assignment", ""), common.pop("exercises", {})
    if unknown := set(own) - {name for chapter in CHAPTERS for name in chapter.exercises}:
        raise ValueError(f"{path}: no chapter has the exercises {', '.join(sorted(unknown))}")
    try:
        return Scheme(assignment, Worth(**common), {name: Worth(**{**common, **own[name]}) for name in own})
    except TypeError as error:
        raise ValueError(f"{path}: known are assignment, points, partial, ready_made and exercises ({error})") from None


def read_roster(path: Path) -> list[dict[str, str]]:
    """Return the class, a dictionary a learner with the headings of Canvas, and ``Email``."""
    people = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            line = {key.strip().lower(): (value or "").strip() for key, value in row.items() if key}
            full = f"{line.get('first name', '')} {line.get('last name', '')}".strip()
            email, number = _first(line, "email", "email address", "sis login id"), line.get("id", "")
            person = {"Student": _first(line, "student", "name") or full, "Section": line.get("section", "")}
            person |= {"ID": number if "sis user id" in line else "", "Email": email}
            person |= {"SIS User ID": _first(line, "sis user id", "id number") or number}
            if person["Student"] and "Points Possible" not in person["Student"]:
                people.append(person | {"SIS Login ID": _first(line, "sis login id") or email})
    if len({person["Student"] for person in people}) < max(len(people), 1):
        raise ValueError(f"{path} must have headings, and a line for each learner, with a name that no other has")
    return people


def _first(line: Mapping[str, str], *headings: str) -> str:
    return next(filter(None, map(line.get, headings)), "")


def named(rows: Iterable[Row], people: Iterable[Mapping[str, str]]) -> list[Row]:
    """Return ``rows`` with the names of the class: a submission may be called by name, ID, or e-mail address."""
    known = defaultdict(set)  # names by key
    for person in people:
        words = person["Student"].replace(",", " ").split()  # Ada Lovelace, or Lovelace, Ada
        called = (*words[-1:], *words[:-1]), words, person["Email"], person["Email"].partition("@")[0]
        for key in {_key("".join(text)) for text in (*called, person["SIS User ID"], person["SIS Login ID"])} - {""}:
            known[key].add(person["Student"])

    def name(learner: str) -> str:
        keys = _key(learner), _key(learner.partition("_")[0])  # Canvas and Moodle put numbers behind a name
        return next((min(known[key]) for key in keys if len(known[key]) == 1), learner)

    return [replace(row, learner=name(row.learner)) for row in rows]


def _key(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def write_class(rows: Sequence[Row], out: Path, scheme: Scheme, people: Sequence[Mapping[str, str]]) -> None:
    """Write ``canvas.csv`` and ``moodle.csv``: a row a learner; without a class, for whoever handed something in."""
    best = best_of(rows)
    chapters = [chapter_of(number) for number in sorted({row.chapter for row in best.values()})]
    columns = {f"{chapter.number} {chapter.title}": chapter.exercises for chapter in chapters}
    if scheme.assignment:
        columns = {scheme.assignment: tuple(name for names in columns.values() for name in names)}
    people = people or [{"Student": learner} for learner in sorted({row.learner for row in rows})]

    def grades(learner: str) -> list[str]:
        found = [[row for name in names if (row := best.get((learner, name)))] for names in columns.values()]
        sums = [sum(scheme.of(row.exercise).earned(row) for row in column) for column in found]
        handed_in = [*map(bool, found), any(found)]
        return [f"{points:.2f}" if there else "" for points, there in zip([*sums, sum(sums)], handed_in, strict=True)]

    possible = [sum(scheme.of(name).points for name in names) for names in columns.values()]
    # Canvas reads what can be had from a line of its own, and passes over "Final Points", which it adds up itself
    lines = [("    Points Possible", "", "", "", "", *(f"{points:.2f}" for points in (*possible, sum(possible))))]
    lines += [(*(person.get(key, "") for key in _CANVAS), *grades(person["Student"])) for person in people]
    write_table((*_CANVAS, *columns, "Final Points"), lines, out / CANVAS)
    lines = [(*(person.get(key, "") for key in _MOODLE.values()), *grades(person["Student"])) for person in people]
    write_table((*_MOODLE, *columns, "Course total"), lines, out / MOODLE)
