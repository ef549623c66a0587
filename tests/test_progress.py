"""Progress is kept where it can be, survives what happens to files, and never stands in a learner's
way."""

import importlib
import json
import multiprocessing
import os
import stat
from datetime import date
from pathlib import Path

import pytest
import torch

from chapters import check, yours
from course_utils import progress

TODAY = date.today().isoformat()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "progress"))
    progress._in_memory.clear()
    yield tmp_path / "progress"
    progress._in_memory.clear()


def test_a_pass_is_kept_with_its_date_and_an_attempt_is_no_pass(folder):
    assert progress.passed() == progress.attempted() == {}
    assert not folder.exists()  # looking leaves no trace
    progress.record("layer_norm", False)
    progress.record("rms_norm", True)
    assert progress.passed() == {"rms_norm": TODAY}
    assert progress.attempted() == {"layer_norm": TODAY, "rms_norm": TODAY}
    assert json.loads((folder / "progress.json").read_text())["rms_norm"]["passed"] == TODAY


def test_what_was_once_passed_stays_passed_with_its_first_date(folder):
    folder.mkdir()
    (folder / "progress.json").write_text(
        '{"layer_norm": {"attempted": "2024-01-01", "passed": "2024-01-02"}}'
    )
    progress.record("layer_norm", False)
    progress.record("layer_norm", True)
    assert progress.passed() == {"layer_norm": "2024-01-02"}
    assert progress.attempted() == {"layer_norm": "2024-01-01"}


@pytest.mark.parametrize(
    "content",
    ["{", "", "[1, 2]", "\x00\xff", '{"rms_norm": {"attempted": "2024-01-01"}, "layer_norm": 3}'],
)
def test_a_damaged_file_is_set_aside_and_named(folder, content):
    folder.mkdir()
    (folder / "progress.json").write_bytes(content.encode("latin-1"))
    (folder / "progress.damaged-1.json").write_text("an older one")
    with pytest.warns(UserWarning, match="progress.damaged-2.json"):
        progress.record("layer_norm", True)
    assert progress.passed() == {"layer_norm": TODAY}
    assert (folder / "progress.damaged-2.json").read_bytes() == content.encode("latin-1")
    assert (folder / "progress.damaged-1.json").read_text() == "an older one"


def test_without_a_writable_directory_progress_lasts_as_long_as_the_process(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "file" / "progress"))
    assert not progress.is_writable()
    progress.record("layer_norm", True)
    progress.record("rms_norm", False)
    assert progress.passed() == {"layer_norm": TODAY}
    assert progress.attempted() == {"layer_norm": TODAY, "rms_norm": TODAY}

    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(tmp_path / "found"))
    progress.record("group_norm", True)
    kept = json.loads((tmp_path / "found" / "progress.json").read_text())
    assert sorted(kept) == ["group_norm", "layer_norm", "rms_norm"]


def test_a_file_that_cannot_be_replaced_does_not_stop_the_course(folder, monkeypatch):
    def refuse(source, target):
        # from another file system it could not be put in place in one step
        assert Path(source).parent == folder
        raise PermissionError

    progress.record("layer_norm", True)
    monkeypatch.setattr(os, "replace", refuse)
    progress.record("rms_norm", True)
    assert progress.passed() == {"layer_norm": TODAY, "rms_norm": TODAY}
    assert sorted(path.name for path in folder.iterdir()) == ["progress.json", "progress.lock"]


def test_the_file_is_for_the_learner_only(folder):
    progress.record("layer_norm", True)
    assert not (folder / "progress.json").stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _record_many(worker):
    for number in range(25):
        progress.record(f"exercise-{worker}-{number}", True)


def test_two_kernels_that_record_at_once_lose_nothing():
    workers = [
        multiprocessing.get_context("fork").Process(target=_record_many, args=(worker,))
        for worker in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert len(progress.passed()) == 100


ANSWER = """
import torch as t

TINY = 0.0

def squared(x):
    return x * x

def mine(x, normalized_shape, weight=None, eps=None):
    dims = [-1 - i for i in range(len(normalized_shape))]
    z = x.to(t.promote_types(x.dtype, t.float32))
    eps = t.finfo(z.dtype).eps if eps is None else eps
    y = z * t.rsqrt((lambda z: squared(z))(z).mean(dims, keepdim=True) + eps + TINY)
    return (y if weight is None else y * weight).to(x.dtype)
"""


def test_an_answer_that_passed_is_at_hand_with_what_it_uses(folder, tmp_path, monkeypatch, capsys):
    (tmp_path / "learner.py").write_text(ANSWER)
    monkeypatch.syspath_prepend(tmp_path)
    x, printed = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), capsys.readouterr
    assert torch.allclose(yours.rms_norm(x, (4,)), torch.nn.functional.rms_norm(x, (4,)))
    assert printed().out == "The course's rms_norm: yours is not passed yet.\n"
    check.rms_norm(yours.rms_norm)  # the course's is nobody's answer
    assert progress.kept("rms_norm") is None
    printed()

    assert check.rms_norm(importlib.import_module("learner").mine).passed
    again = yours.rms_norm
    assert printed().out == "Your rms_norm, as you passed it.\n"
    assert again.__code__.co_filename == "<your rms_norm>"
    assert torch.allclose(again(x, (4,)), torch.nn.functional.rms_norm(x, (4,)))


def test_an_answer_that_fails_today_is_the_courses(folder, capsys):
    progress.keep(
        "rms_norm", "def rms_norm(x, normalized_shape, weight=None, eps=None):\n    return x\n"
    )
    assert yours.rms_norm.__module__.startswith("chapters.")
    progress.keep("rope", "rope = gone\n")
    assert yours.rope.__module__.startswith("chapters.")
    assert capsys.readouterr().out.splitlines() == [
        "The course's rms_norm: yours passes no more.",
        "The course's rope: yours fails to run (NameError: name 'gone' is not defined).",
    ]
    with pytest.raises(AttributeError, match="no exercise 'nothing'"):
        yours.nothing  # noqa: B018
    progress.reset()
    assert progress.kept("rms_norm") is None


UNUSUAL = """
import functools

import torch

BASE, WIDE = 10_000.0, torch.float64

@functools.cache
def speeds(dim, base):
    return base ** (-torch.arange(0, dim, 2, dtype=WIDE) / dim)

def tables(x, positions, base):
    angles = positions.double()[:, None] * speeds(x.shape[-1], base)
    return angles.cos(), angles.sin()

def mine(x, positions, *, base=BASE):
    a, b = x.double().chunk(2, dim=-1)
    cos, sin = tables(x, positions, base)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x.dtype)

plain = lambda x, positions, base=BASE: mine(x, positions, base=base)

class Rope(torch.nn.Module):
    def forward(self, x, positions, base=BASE):
        return mine(x, positions, base=base)
"""


def test_defaults_decorators_and_lambdas_are_kept_and_called_by_place(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "unusual.py").write_text(UNUSUAL)
    monkeypatch.syspath_prepend(tmp_path)
    unusual = importlib.import_module("unusual")
    x, places = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)), torch.arange(3)
    for answer in (unusual.mine, unusual.plain):
        progress.reset()
        assert check.rope(answer).passed
        again = yours.rope
        assert capsys.readouterr().out == "Your rope, as you passed it.\n"
        assert torch.equal(again(x, places, 500.0), unusual.mine(x, places, base=500.0))
        assert yours.convention_of(again) == ""
        assert yours.owner_of(again) == "your"
    chosen = check.rope.choose(unusual.mine, check.rope.oracle)
    assert torch.equal(chosen(x, places, 500.0), again(x, places, 500.0))
    assert check.rope(chosen).passed  # and again, as it is used from there on
    assert yours.owner_of(yours.rope) == "your"


def test_an_answer_without_source_is_said_to_have_passed(tmp_path, monkeypatch, capsys):
    (tmp_path / "modules.py").write_text(UNUSUAL)
    monkeypatch.syspath_prepend(tmp_path)
    progress.reset()
    assert check.rope(importlib.import_module("modules").Rope()).passed
    report = check.centre(lambda x: x - x.mean(-1, keepdim=True))  # its line binds something else
    assert report.passed
    for name in ("rope", "centre"):
        assert yours.owner_of(getattr(yours, name)) == "the course's"
        assert capsys.readouterr().out == (
            f"The course's {name}: yours passed, and its source could not be kept.\n"
        )
