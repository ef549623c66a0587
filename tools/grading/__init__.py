"""Grading a folder of submitted notebooks with the course's own checks: ``course grade DIR``.

    submissions    who handed in what, and which chapter it is
    needed         which statements of a notebook an answer depends on
    process        one exercise in a process of its own, with limits
    worker         what that process does: run them, take the answer, check it
    run            the whole folder; what is done is kept at once
    points         what it is worth, who is in the class, and what Canvas and Moodle import
    results        as CSV, as a report to read, and as a page for each learner

**What it defends against.** An exercise is graded in a process of its own: a crash, an endless loop, too much memory,
too many processes or too much output cost that exercise and nothing else. A verdict is believed only with a number
that the process was given and the notebook was not, and nothing that a notebook stores or prints is read.

**What it does not.** It is a grader for a class and no prison. The answer is called in the process that judges it, as
in the learner's own notebook, so code that sets out to forge its verdict can find the means; it can read the files that
you can read, use the network where there is one, and leave a process behind that has left the process group. Memory is
limited for each process, not for all of them together, and macOS does not enforce that limit. Grade strangers in a
container or a virtual machine.
"""
