"""Claims of no chapter, for tests to try."""

from course_utils.claims import Claim

TRIED = {
    "warm": Claim(
        "warm", "water < ice", "holds", found="{} K, {:.1f} in {}", source="Ba et al. 2016 §1; Clay"
    ),
    "dry": Claim("dry", "water is dry", "does not hold"),
    "ice": Claim("ice", "water is hard", "holds if", condition="T < 273 K"),
}
