"""What authors and instructors run; a learner needs none of it, and nothing in ``course_utils``
imports it, but for its own copies of the notebooks.

notebooks   the notebooks as files: find, read, run, normalize, find their exercises
text_view   a notebook as a Python file to edit, and back
lint        what a reader of a notebook would trip over, and the lines that link the chapters
ledger      the claims that the notebooks prove, from what ran
learn       a learner's own copies of the notebooks, which make lab opens
student     a copy of a notebook without its solutions
handbook    for who teaches: times, objectives and the common wrong answers
site        all notebooks as a static site
readme      the numbers and the addresses of README.md
doctor      whether this machine can run the course
grading     the checks over a folder of submitted notebooks (``course grade``)
"""
