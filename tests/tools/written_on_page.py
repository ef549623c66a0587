"""Answers judged as a page judges them: MicroPython and judge.js, in Node."""

from in_node import call_in_node

from tools.site.exercises import WRITE, PYTHON_FILES

__all__ = ["judged", "values_of"]

_MODULE = """
import {{ loadMicroPython }} from "{interpreter}";
import {{ readFileSync }} from "node:fs";
{worker}
{judge}
const files = Object.fromEntries({files}.map((path) => [path.split("/").pop(), readFileSync(path, "utf-8")]));
const run = await startPython(loadMicroPython, undefined, files, () => {{}});
const job = (exercise, source, calls) => run({{ source, name: exercise.name, required: exercise.required, calls: calls.map((call) => call.arguments) }});
export function report(exercise, source) {{
  const {{ results, ...error }} = job(exercise, source, exercise.probes);
  if (!results) return error;
  const report = judge(exercise, results);
  return report.ask.length ? withEvidence(exercise, report, job(exercise, source, report.ask).results) : report;
}}
export const values = (source, calls) => run({{ source, name: "f", required: Object.keys(calls[0]), calls }});
"""


def _module():
    return _MODULE.format(
        interpreter=(WRITE / "micropython" / "micropython.mjs").as_uri(),
        worker=(WRITE / "worker.js").read_text(encoding="utf-8"),
        judge=(WRITE / "judge.js").read_text(encoding="utf-8"),
        files=[str(path) for path in PYTHON_FILES],
    )


def judged(folder, data, sources):
    """Return the page's report on each answer to the exercise of ``data``."""
    calls = [[source] for source in sources]
    (folder / "data.mjs").write_text("") 
    return call_in_node(folder, _module() + _with(data), "module.reportOn", calls)


def _with(data):
    import json

    return f"const data = {json.dumps(data)};\nexport const reportOn = (source) => report(data, source);\n"


def values_of(folder, calls):
    """Return what functions named ``f`` give in the page's Python, for each source and its calls."""
    return call_in_node(folder, _module(), "module.values", calls)
