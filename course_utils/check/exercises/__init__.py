"""One file an exercise: the reference, in whose source the known mistakes are edits, and the probes."""
