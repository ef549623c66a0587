"""Answers judged as a page judges them, in Node: MicroPython, the small torch, judge.js."""

import json

from in_node import call_in_node

from tools.site.exercises import WRITE, python_files

__all__ = ["reports", "results"]

_MODULE = """
import { loadMicroPython } from "INTERPRETER";
import { readFileSync } from "node:fs";
const run = await startPython(loadMicroPython, undefined, FILES, () => {});
export function results(name, required, source, calls) {
  return run({ source, name, required, calls });
}
export function report(path, source) {
  const exercise = JSON.parse(readFileSync(path, "utf-8"));
  const { name, required, piece } = exercise;
  if (piece) return run({ source, name, required: ["ordinary"], piece });
  const inputs = (calls) => calls.map((call) => call.arguments);
  const ask = (calls) => results(name, required, source, inputs(calls)).results;
  const report = judge(exercise, ask(exercise.probes));
  return report.ask.length ? withEvidence(exercise, report, ask(report.ask)) : report;
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
