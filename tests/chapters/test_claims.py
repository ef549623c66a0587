"""Every entry of every claims.toml says what its verdict asks for."""

from chapters import known_claims
from chapters.contents import CHAPTERS
from course_utils import claims as book_claims
from course_utils.claims import VERDICTS


def test_an_entry_says_what_its_verdict_asks_for():
    for chapter in CHAPTERS:
        for claim in known_claims(chapter.number).values():
            assert claim.verdict in VERDICTS, claim
            assert bool(claim.condition) == (claim.verdict in book_claims.CONDITIONED), claim
            assert claim.source or not claim.quote, claim
            assert "TODO" not in f"{claim.condition}{claim.found}", claim
