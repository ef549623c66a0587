"""The works that claims name: found in their words, and every sentence of a write-up answered."""

import pytest

from chapters.c20_on_trial import ledger
from chapters.sources import LISTED, OWN_WORDS, WRITE_UPS, works_named

CLAIMS = ledger.load()


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: f"{listed.source}-{listed.says[:40]}")
def test_what_a_write_up_says_is_answered_by_claims_that_ran(listed):
    assert listed.answered_by
    for name in listed.answered_by:
        assert name in CLAIMS, f"{listed.source} says «{listed.says}»: no claim {name} ran"
        assert listed.source in CLAIMS[name].works


@pytest.mark.parametrize("work", WRITE_UPS, ids=lambda work: work.name)
def test_a_claim_that_names_a_write_up_answers_a_sentence_of_it(work):
    answered = {
        name for listed in LISTED if listed.source == work.name for name in listed.answered_by
    }
    named = {name for name, entry in CLAIMS.items() if work.name in works_named(entry.claim.source)}
    assert named <= answered


def test_every_source_that_a_claim_names_is_known():
    unknown = {
        e.claim.source for e in CLAIMS.values() if works_named(e.claim.source) == ["this course"]
    } - OWN_WORDS
    assert unknown == set(), "add the work to chapters/sources.toml"


@pytest.mark.parametrize(
    ("source", "works"),
    [
        ("Kingma & Ba 2015, §3", ["Kingma & Ba 2015"]),  # and not Ba et al.
        ("Rico, Road to ML; Wu and He 2018 §1", ["Rico", "Road to ML", "Wu & He 2018"]),
        # each with its own year
        ("Xiong et al. 2020; Chen et al. 2023", ["Xiong et al. 2020", "Chen et al. 2023"]),
        ("YaRN §3.2; jquesnelle/yarn", ["Peng et al. 2023", "libraries"]),
        ("S01", ["this course"]),
    ],
)
def test_works_are_found_in_the_words_of_a_claim(source, works):
    assert works_named(source) == works
