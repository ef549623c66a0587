"""Answers judged as a page judges them, in Node: MicroPython, the small torch, judge.js."""

import json
from dataclasses import replace
from functools import cache
from itertools import combinations
from types import SimpleNamespace

from answers import the_solution_as_the_learners_own
from in_node import call_in_node
from naming import keys_of

from chapters import check
from course_utils.check.catalogue import source_of, with_edits
from course_utils.check.diagnosis import function_with
from tools.notebooks import find_exercises, find_notebooks, read_notebook
from tools.site import exercises
from tools.site.exercises import WRITE, WRITTEN_ON_PAGE, python_files

__all__ = ["data_of", "mistakes_of", "named_otherwise", "reports", "results", "solutions"]

_MODULE = """
import { loadMicroPython } from "INTERPRETER";
import { readFileSync } from "node:fs";
const run = await startPython(loadMicroPython, undefined, FILES, () => {});
export function results(name, required, source, calls) {
  return run({ source, name, required, calls });
}
const read = {}; // once for all answers, as a page does
export function report(path, source) {
  const exercise = (read[path] ??= JSON.parse(readFileSync(path, "utf-8")));
  const { name, piece } = exercise;
  if (piece) return run({ source, name, required: ["ordinary"], piece });
  return reportOn(exercise, source, run);
}
"""


def _module():
    interpreter = (WRITE / "micropython" / "micropython.mjs").as_uri()
    files = json.dumps(python_files())
    scripts = [(WRITE / name).read_text(encoding="utf-8") for name in ("worker.js", "judge.js")]
    module = _MODULE.replace("INTERPRETER", interpreter).replace("FILES", files)
    return "\n".join([*scripts, module])


def reports(folder, data, sources):
    """Return the page's report on each answer to the exercise of ``data``."""
    path = folder / "exercise.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    calls = [[str(path), source] for source in sources]
    return call_in_node(folder, _module(), "module.report", calls, timeout_s=3_600)


def results(folder, calls):
    """Return what ``[name, required arguments, source, coded calls]`` give in the page's Python."""
    return call_in_node(folder, _module(), "module.results", calls)


def data_of(site, name):
    """Return what the page of an exercise has to judge it by."""
    script = (site / "_static" / f"write_{name}.js").read_text(encoding="utf-8")
    return json.loads(script.partition(f".{name} = ")[2].rstrip(";\n"))


@cache
def solutions():
    """The course's solution to each exercise, as a learner would write it."""
    return {
        exercise.names[0]: the_solution_as_the_learners_own(notebook, exercise)
        for notebook in map(read_notebook, find_notebooks())
        for exercise in find_exercises(notebook)
        if exercise.names[0] in WRITTEN_ON_PAGE
    }


def mistakes_of(name, count):
    """Return the slips of an exercise that edits make: one at once, or two."""
    exercise = check[name].exercise
    slips = [
        (key, form)
        for key, mistake in exercise.catalogue.items()
        for form in range(len(mistake.edits))
    ]
    several = [each for each in combinations(slips, count) if len(dict(each)) == count]
    return [each for each in several if function_with(exercise, each)]


def named_otherwise(name, folder, data, mistakes):
    """Return which of these mistakes a page names otherwise than a check of the same probes, with
    what each names; None for an answer that passes.

    What shows a mistake may be another small input than the search in JupyterLab ends at. Beside
    another mistake, a variance that is clamped at 0 may never be negative in the page's rounding.
    """
    exercise = check[name].exercise
    here = replace(exercise, probes=list(filter(exercises._can_be_run, exercise.probes)))
    reference = next(iter(exercise.catalogue.values())).reference
    edits = [[exercise.catalogue[key].edits[form] for key, form in slips] for slips in mistakes]
    texts = [with_edits(source_of(reference), *each) for each in edits]
    texts = [text.replace(reference.__name__, name) for text in texts]
    differing = []
    for slips, report in zip(mistakes, reports(folder, data, texts), strict=True):
        keys = keys_of(SimpleNamespace(exercise=here), function_with(exercise, slips))
        named = None if report["passed"] else report["keys"]
        if len(slips) > 1:
            named, keys = (_told_apart_by_rounding(each) for each in (named, keys))
        if named != keys:
            differing.append((slips, named, keys))
        if named:
            due, got = (line.split(": ", 1)[1] for line in report["evidence"][-2:])
            assert due != got, slips
    return differing


def _told_apart_by_rounding(keys):
    one_pass = ("one_pass_clamped", "one_pass_variance")
    return keys and [one_pass[0] if key in one_pass else key for key in keys]
