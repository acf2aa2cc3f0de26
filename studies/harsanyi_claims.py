"""Claims of the Harsanyi study, and what each finding should say of a scorer whose fault is known.

Written before any result of the judging seeds was looked at. "Interaction share" is the
interaction's share of the three mean sensitivities that a finding compares; independent noise has
one half.
"""

from __future__ import annotations

from collections.abc import Mapping

from studies.verdict import Claim

SHARE = (1.0, "")
POINTS = (100.0, "points")

ABLE: Mapping[str, tuple[bool | None, ...]] = {
    "oracle": (True, True, True, True, True),
    "objects only": (False, False, False, False, False),
    "bag of words": (False, False, False, False, False),
    "first noun loudest": (False, False, False, False, False),
    "relations only": (True, None, True, True, True),
    "no direction": (False, True, None, None, None),
    "backwards": (False, False, False, False, False),
    "text only": (False, False, False, False, False),
    "image only": (False, False, False, False, False),
    "noise": (False, False, False, False, False),
}
"""Whether a scorer knows what each of the five findings is about, by construction.

None is not counted. "no direction" tells left from behind, not left from right, so that it knows a
part of the last three; where attributes change hands in a caption with a relation, "relations only"
sees that other things are meant.
"""

CLAIMS: Mapping[str, Claim] = {
    # Validation: the share of the interaction where the knowledge is there, and where it is not.
    **{
        f"oracle {key}": Claim(
            f"oracle: the interaction share of {key} is above noise's 0.5", "above", 0.5, SHARE
        )
        for key in ("Q_R&O", "Q_A&O", "D_O1&O2", "Q_T:R&O->I:O1&O2", "D_I:O1&O2->T:R&O")
    },
    "noise Q_R&O": Claim(
        "noise: the interaction share of Q_R&O is 0.5 within 0.05", "within", 0.05, SHARE
    ),
    "noise D_O1&O2": Claim(
        "noise: the interaction share of D_O1&O2 is 0.5 within 0.05", "within", 0.05, SHARE
    ),
    "objects R": Claim(
        "objects only: relation words have a share of squared dividends of 0 within 0.02",
        "within", 0.02, SHARE,
    ),
    "bag Q_A&O": Claim(
        "bag of words: the interaction share of Q_A&O is below that of noise", "below", 0.0, SHARE
    ),
    "direction Q_R&O": Claim(
        "no direction: the interaction share of Q_R&O is below that of noise", "below", 0.0, SHARE
    ),
    "loudest Q_R&O": Claim(
        "first noun loudest: the interaction share of Q_R&O is below that of noise",
        "below", 0.0, SHARE,
    ),
    "text Q_R&O": Claim(
        "text only: the interaction share of Q_R&O is not above noise's 0.5", "below", 0.5, SHARE
    ),
    "text Q_A&O": Claim(
        "text only: the interaction share of Q_A&O is not above noise's 0.5", "below", 0.5, SHARE
    ),
    "text QI": Claim(
        "text only: the mutual share of Q_T:R&O->I:O1&O2 is 0.5 within 0.05", "within", 0.05, SHARE
    ),
    "backwards Q_R&O": Claim(
        "backwards: the interaction share of Q_R&O is not above noise's 0.5", "below", 0.5, SHARE
    ),
    "named": Claim(
        "at 200 examples per part a finding says \"dominates\" of what the scorer knows and "
        "\"does not dominate\" of the rest, in more than 80 % of cases", "above", 0.8, POINTS,
    ),
    "false": Claim(
        "at 200 examples per part a finding says \"dominates\" of what the scorer does not know in "
        "less than 5 % of cases", "below", 0.05, POINTS,
    ),
    "read": Claim(
        "the same, read as \"knows\" only where it dominates and accuracy is above chance, is "
        "right in more than 80 % of cases", "above", 0.8, POINTS,
    ),
    # The paper's claims, on the built-in models.
    **{
        f"{model} {name}": Claim(f"`{model}`: {text}", "above", 0.0, SHARE, source)
        for model in ("tiny", "tiny-clip")
        for name, text, source in (
            ("T1", "Q_R&O exceeds the larger of Q_O and Q_R when objects change places", "Table 1"),
            ("F3", "ρ of R&O exceeds the larger of the ρ of O and R", "Figure 3"),
            ("T4", "Q_A&O exceeds the larger of Q_O and Q_A when attributes change hands",
             "Table 4"),
            ("F7", "ρ of A&O exceeds the larger of the ρ of O and A", "Figure 7"),
            ("T2", "the larger of D_O1 and D_O2 exceeds D_O1&O2 when only the relation changes",
             "Table 2"),
            ("T3a", "the larger of Q_T:R&O->I:O1 and O2 exceeds Q_T:R&O->I:O1&O2", "Table 3"),
            ("T3b", "the larger of D_I:O1&O2->T:R and O exceeds D_I:O1&O2->T:R&O", "Table 3"),
            ("T5o", "a replaced object: Q_O exceeds Q_R&O", "Table 5"),
            ("T5r", "a replaced relation: the smaller of Q_R and Q_R&O exceeds Q_O", "Table 5"),
            ("T6", "a replaced attribute: the smaller of Q_A and Q_A&O exceeds Q_O", "Table 6"),
            ("T8", "an added attribute: the smaller of Q_A and Q_A&O exceeds Q_O", "Table 8"),
            ("T7", "an added object: Q_O exceeds Q_R", "Table 7"),
        )
    },
}  # fmt: skip
