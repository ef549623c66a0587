"""The former name of ``python -m tools``."""
