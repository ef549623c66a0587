"""Functions of the widgets' browser modules, called as the browser gets them, in Node."""

import json
import shutil
import subprocess

import pytest


def call_in_node(folder, module, function, calls, timeout_s=60):
    """Return what ``function``, such as ``"module.change"``, gives for each list of arguments in
    ``calls``, one after the other."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the JavaScript side cannot be run here")
    (folder / "widget.mjs").write_text(module, encoding="utf-8")
    script = f"""
        import * as module from "./widget.mjs";
        import {{ readFileSync }} from "node:fs";
        const calls = JSON.parse(readFileSync(0, "utf-8"));
        const isOdd = (value) => typeof value === "number" && !Number.isFinite(value);
        const named = (key, value) => (isOdd(value) ? String(value) : value);
        const told = [];
        for (const args of calls) told.push(await ({function})(...args));
        process.stdout.write(JSON.stringify(told, named));
    """
    (folder / "run.mjs").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [node, "run.mjs"],
        cwd=folder,
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
