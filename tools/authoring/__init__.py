"""The tools that notebooks are made with; a learner needs none of them.

    files       find the notebooks, read them, write them back in one step
    execute     run a notebook in a fresh kernel
    normalize   leave out what differs from one run to the next, so that running again gives the same bytes
    text_view   a notebook as a Python file to edit, and back
    exercises   where a notebook's exercises are: stub, check, solution
    lint        what a reader of a notebook would trip over, and what to do about it; page: a notebook as its rules,
                in rules_text, rules_code and rules_outputs, read it
    student     a copy of a notebook without its solutions
    handbook    for who teaches: times, objectives and the common wrong answers; example_code shows those as code
    ledger      the claims that the notebooks prove, from what ran; links: the lines that lead from one to the next
    site        all notebooks as a static site
    numbers     what the course holds, counted, for README.md; pictures: the two that it shows
    freeze      constraints.txt from what is installed

Each is behind a target of the Makefile, or ``python -m tools.authoring COMMAND``.
"""
