"""Answers judged as a page judges them, in Node: MicroPython, the small torch, judge.js."""

import inspect
import json
import textwrap
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

from answers import the_solution_as_the_learners_own
from in_node import call_in_node
from naming import keys_of

from chapters import check
from course_utils.check.catalogue import with_edits
from tools.notebooks import find_exercises, find_notebooks, read_notebook
from tools.site import exercises
from tools.site.exercises import WRITE, WRITTEN_ON_PAGE, python_files

__all__ = ["assert_judged_as_in_jupyterlab", "data_of", "reports", "results", "solutions"]

_MODULE = """
import { loadMicroPython } from "INTERPRETER";
import { readFileSync } from "node:fs";
const run = await startPython(loadMicroPython, undefined, FILES, () => {});
export function results(name, required, source, calls) {
  return run({ source, name, required, calls });
}
export function report(path, source) {
  const exercise = JSON.parse(readFileSync(path, "utf-8"));
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
    return call_in_node(folder, _module(), "module.report", calls)


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


def assert_judged_as_in_jupyterlab(name, folder, site, count, besides=()):
    """Of the mistakes the first ones, and those ``besides`` by their keys.

    What shows a mistake may be another small input than the search in JupyterLab ends at."""
    exercise = check[name].exercise
    here = replace(exercise, probes=list(filter(exercises._can_be_run, exercise.probes)))
    mistakes = [mistake for mistake in exercise.catalogue.values() if mistake.edits]
    mistakes = mistakes[:count] + [each for each in mistakes[count:] if each.key in besides]
    reference = mistakes[0].reference
    source = textwrap.dedent(inspect.getsource(reference))
    texts = [with_edits(source, mistake.edits[0]) for mistake in mistakes]
    texts = [text.replace(reference.__name__, name) for text in texts]
    first, *others = reports(folder, data_of(site, name), [solutions()[name], *texts])
    assert first["passed"], first
    for mistake, report in zip(mistakes, others, strict=True):
        keys = keys_of(SimpleNamespace(exercise=here), mistake.examples[0])
        assert (report["passed"], report["keys"]) == (keys is None, keys or [])
        if keys:
            due, got = (line.split(": ", 1)[1] for line in report["evidence"][-2:])
            assert due != got, mistake.key
