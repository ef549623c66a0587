"""doctor: what it says of a healthy machine and of a broken one."""

import subprocess
import sys
from importlib import metadata

import pytest

from course_utils import __main__ as command
from tools import doctor


def finding(subject):
    return next(f for f in doctor.examine() if f.subject == subject)


def test_the_machine_that_runs_the_tests_is_healthy(capsys):
    assert doctor.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Everything that the course needs is here."
    assert any(line.startswith("OK") and metadata.version("torch") in line for line in lines)


def test_a_missing_package_is_a_line_to_fix_and_an_exit_status(monkeypatch, capsys):
    def version(name):
        if name == "matplotlib":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(doctor.metadata, "version", version)
    assert doctor.main([]) == 1
    line = next(line for line in capsys.readouterr().out.splitlines() if "matplotlib" in line)
    assert line.startswith("FIX")
    assert "make lab" in line


@pytest.mark.parametrize(
    ("version", "bound", "expected"),
    [
        ("2.13.0+cpu", ">=2.11", True),
        ("2.9.1", ">=2.11", False),
        ("2.13.0", "<3", True),
        ("3.0.0", "<3", False),
        ("2.11", ">=2.11.0", True),
        ("9.10.0rc1", ">=9.9", True),
    ],
)
def test_versions_compare_as_numbers_not_as_text(version, bound, expected):
    assert doctor._satisfies(version, bound) is expected


def test_a_version_outside_its_range_says_which_range(monkeypatch):
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "0.1")
    assert finding("torch").status == "fix"
    assert "torch" in finding("torch").advice
    assert ">=" in finding("torch").advice


def test_an_old_python_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9))
    assert doctor._python().status == "fix"
    assert "3.11" in doctor._python().advice


def test_what_is_optional_never_fails_the_doctor(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("COURSE_PROGRESS_DIR", str(blocked / "progress"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    for subject in ("GPU", "C++ compiler", "progress"):
        assert finding(subject).status == "optional"
        assert finding(subject).advice
    assert doctor.main([]) == 0


def test_triton_is_no_line_to_fix_where_it_does_not_exist(monkeypatch):
    def version(name):
        if name == "triton":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    requires = ["numpy<3,>=1", "triton<4,>=3.4; sys_platform == 'linux' and platform_machine == 'x86_64'"]
    monkeypatch.setattr(doctor.metadata, "version", version)
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: requires)
    assert [finding.subject for finding in doctor._dependencies()] == ["numpy"]
    assert finding("Triton").status == "optional"
    assert "make lab" in finding("Triton").advice


def test_a_broken_nvidia_smi_is_a_line_not_a_traceback(monkeypatch, tmp_path):
    fake = tmp_path / "nvidia-smi"
    fake.write_text("#!/bin/sh\nexit 9\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "failed" in doctor._gpu().found


def test_the_doctor_does_not_need_torch_to_speak():
    code = "import sys; sys.modules['torch'] = None; from course_utils.__main__ import main; sys.exit(main(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "cores" in done.stdout, done.stderr


def test_an_unknown_command_lists_the_known_ones(capsys):
    assert command.main(["docter"]) == 2
    assert "doctor" in capsys.readouterr().err


def test_help_lists_every_command(capsys):
    assert command.main([]) == 0
    assert all(name in capsys.readouterr().out for name in ["doctor"])
