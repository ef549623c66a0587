"""Grading a folder of submitted notebooks with the course's own checks: ``course grade DIR``.

    command        the whole folder; what is done is kept at once
    submissions    which files are notebooks of the course, and which chapter each is
    needed         which statements of a notebook an answer depends on
    process        one exercise in a process of its own, with limits
    worker         what that process does: run them, take the answer, check it
    results        as CSV, and as a report to read

Names, points and columns for an LMS are the business of nbgrader and Otter, which take the copies
of `make student`.

**What it defends against.** Each exercise has its own process: a crash, an endless loop, too much
memory or output cost that exercise alone. A verdict is believed only with a number that the process
was given and the notebook was not.

**What it does not.** It does not hold back hostile code: what sets out to forge its verdict can
find the means, since the answer is called in the process that judges it; it can read your files,
use the network where there is one, and leave a process behind. Memory is limited for each process,
and not on macOS. Grade strangers in a container.
"""
