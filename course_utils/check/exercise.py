"""Until the last exercise has moved: see ``engine``."""

from course_utils.check.engine import Check, Convention

__all__ = ["Check", "Convention"]
