"""The command ``course``, also ``python -m course_utils``: one word chooses what to do.

The commands are the entry points ``course_utils.commands`` of ``pyproject.toml``: the word, and the
function that takes what follows it.
"""

import sys
from importlib.metadata import entry_points

ABOUT = {
    "doctor": "can this machine run the course? a line for each thing, OK or what to do",
    "bench": "time every implementation of the ladder and record it",
    "train": "run an experiment of the course in its full form and record it",
    "diagnose": "what a norm or a rotation of any package computes, found by calling it",
    "grade": "run the checks over a folder of submitted notebooks",
}


def main(argv: list[str] | None = None) -> int:
    """Run the command that the first argument names; return its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    commands = {point.name: point for point in entry_points(group="course_utils.commands")}
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: course COMMAND [options]\n")
        print("\n".join(f"  {name:<12} {ABOUT[name]}" for name in ABOUT))
        return 0
    word = arguments[0]
    if word not in commands:
        if word in ABOUT:
            return _stop(
                "the installed package is older than this copy of the course: `make lab` installs "
                "it again"
            )
        return _stop(f"unknown command {word!r}; known are {', '.join(ABOUT)}")
    try:
        command = commands[word].load()
    except ModuleNotFoundError as error:
        if error.name != "tools":
            raise
        return _stop(
            f"{word} needs the folder tools/ of the course's repository, and only the package is "
            "installed"
        )
    return command(arguments[1:])


def _stop(message: str) -> int:
    print(f"course: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
