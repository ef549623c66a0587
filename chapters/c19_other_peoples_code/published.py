"""What was found in published packages: their layers as diagnosed, and runs that show a defect."""

import contextlib
import importlib.util
import io
import json
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from IPython.display import Markdown

from course_utils.table import Table

__all__ = ["defect", "defects", "layers", "printed_by", "runs", "table"]

HERE = Path(__file__).parent
# of a defect, and of a layer: what is written by hand
TOLD = ("name", "title", "code", "should", "about", "thread")
NORM = {  # column -> question
    "over": "set",
    "mean": "mean",
    "divides by": "divides by",
    "ε": "ε",
    "weight": "parameters",
    "at an offset of 10,000": "at an offset of 10,000",
    "bfloat16": "bfloat16",
}
ROTATION = {
    "pairs": "layout",
    "turns": "turns",
    "frequencies": "frequencies",
    "length changes": "length changes",
    "bfloat16 queries": "bfloat16 queries",
}
SHORTER = [
    ("the root of: ", "√ "),
    ("the last axis", "last axis"),
    (" inside the root", " inside"),
    ("yes, two passes", "two passes"),
    ("no: E[x²] − E[x]²", "one pass"),
    ("float32 inside, ", ""),
    ("rounded before the weight and after it", "rounded twice"),
    ("rounded on the way", "on the way"),
    (" of the values differ from one rounding", " differ"),
    ("turn by the same angles", "the same angles"),
    ("(x − mean) / s holds for no statistic known", "no statistic known"),
]


def layers() -> list[dict[str, Any]]:
    """The published layers: package, version, make, summary, answers, the course's call, and a name
    where ``make`` is long."""
    listed = tomllib.loads((HERE / "layers.toml").read_text("utf-8"))["layer"]
    names = {(row["package"], row["make"]): row.get("name", row["make"]) for row in listed}
    return [row | {"name": names[row["package"], row["make"]]} for row in _rows("layers")]


def runs() -> list[dict[str, Any]]:
    """The defects, as they are told, each with the version, the date and what its run printed."""
    ran = {row["key"]: row for row in _rows("defects")}
    told = tomllib.loads((HERE / "defects.toml").read_text("utf-8"))["defect"]
    return [row | ran.get(row["key"], {}) for row in told]


def printed_by(code: str) -> str:
    """What a run prints. It runs here, with whatever it imports."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    return out.getvalue()


def defect(key: str) -> Markdown:
    """A defect: its run, what that printed where it was recorded, and what it prints here where the
    package is installed."""
    return Markdown(_told(next(run for run in runs() if run["key"] == key)))


def defects(*shown: str) -> Markdown:
    """All other defects, one line each, with their runs folded."""
    parts = [
        f"<details><summary>{run['package']} {run['version']}: {run['title']}</summary>\n\n"
        f"{_told(run)}\n\n</details>"
        for run in runs()
        if run["key"] not in shown
    ]
    return Markdown("\n\n".join(parts).replace("`dynamic`", "dynamic"))


def table(kind: str, *named: str) -> Table:
    """The published layers of a kind, "norm" or "rotation", a row a layer, by package: all of them,
    folded, or those with one of ``named`` in package and name."""
    columns = NORM if kind == "norm" else ROTATION
    first = next(iter(columns.values()))
    asked = [row for row in layers() if first in row["answers"]]
    rows, above = [], ""
    for row in asked:
        full = f"{row['package']} {row['name']}".lower()
        if not named or any(part.lower() in full for part in named):
            package = f"{row['package']} {row['version'].split('+')[0]}"
            cells = [_short(row["answers"], question) for question in columns.values()]
            rows.append((package if package != above else "", row["name"], *cells))
            above = package
    caption = f"{len(rows)} {kind}s of {len({row['package'] for row in asked})} packages"
    return Table(("package", "layer", *columns), rows, "" if named else caption, not named)


def _rows(name: str) -> list[dict[str, Any]]:
    path = HERE / f"{name}.jsonl"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _told(run: dict[str, Any]) -> str:
    place = f", {run['where']}" if "where" in run else ""
    thread = run["thread"]
    lines = [
        f"**{run['package']} {run['version']}: {run['title']}**",
        f"```python\n{run['code'].strip()}\n```",
        f"Printed on {run['date']}{place}:",
        f"```text\n{run['printed'].strip()}\n```",
        f"Expected: {run['should']}. {run['about']} Known? {thread[:1].upper()}{thread[1:]}.",
    ]
    if importlib.util.find_spec(run["package"]):
        try:
            here = printed_by(run["code"]).strip()
        except Exception as error:
            here = f"{type(error).__name__}: {error}"
        found = packages_distributions().get(run["package"], [run["package"]])[0]
        lines.insert(4, f"Here, in {version(found)}:\n\n```text\n{here}\n```")
    return "\n\n".join(lines)


def _short(answers: dict[str, str], question: str) -> str:
    answer = answers.get(question, "")
    if question == "parameters":  # their form, not their names
        forms = [form.split(": ")[-1].split(",")[0] for form in answer.split("; ")]
        used = [form for form in forms if form != "changes nothing"]
        return ", ".join(used).replace("neither multiplies nor adds", "?")
    for old, new in SHORTER:
        answer = answer.replace(old, new)
    return answer
