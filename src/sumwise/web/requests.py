"""What clients send: strict, so that nothing is guessed. "1,234.5" is no number, true is no 1."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Path, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from sumwise.data.validate import LARGEST_TOTAL, LONGEST_TEXT
from sumwise.web.problems import Refused
from sumwise.web.tokens import HOLDER

MOST_ROWS: Final = 200  # on a page
MOST_ASKED: Final = 50  # questions at once
LAST_PAGE: Final = 10**9
FURTHEST: Final = 2**53 - 1  # the largest whole number that JavaScript holds

Text = Annotated[str, Field(max_length=LONGEST_TEXT, pattern=r"^[^\x00]*$")]
Number = Annotated[
    float, Field(ge=-LARGEST_TOTAL, le=LARGEST_TOTAL, allow_inf_nan=False, strict=True)
]
Spread = Annotated[float, Field(ge=0, le=LARGEST_TOTAL, allow_inf_nan=False, strict=True)]


def _whole(value: Any) -> Any:
    """JSON has one kind of number, so 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE: Final = BeforeValidator(_whole)
Place = Annotated[int, Field(ge=0, le=FURTHEST, strict=True), WHOLE]

By = Annotated[
    Text | None,
    Field(
        description="Your name, stored with this. A label, not a login; but if the token is that "
        "of a person, their name is stored, and another is refused.",
        examples=["ann"],
    ),
]
Note = Annotated[Text | None, Field(description="A note for people, stored with this action.")]
Noise = Annotated[
    Spread | None,
    Field(
        description="Standard deviation of known noise of this measurement, in addition to "
        "that of its individuals, such as noise added for privacy."
    ),
]

Members = Annotated[
    list[Text | Annotated[int, Field(strict=True)]] | None,
    Field(
        min_length=1,
        max_length=100_000,
        description="The members that the total covers, if not all: ids of rows, or where rows "
        "have none, their numbers within the set, from 1.",
    ),
]
Covers = Annotated[
    Annotated[float, Field(gt=0, le=1, strict=True)] | None,
    Field(
        description="The share of the set that the total covers, if it is not known whose. The "
        "total is scaled up, with known noise for those who did not answer."
    ),
]
Sure = Annotated[
    bool, Field(strict=True, description="Store the total even if it is far from its prediction.")
]

# --- in addresses ---------------------------------------------------------------------------------


def _digits(value: Any) -> Any:
    """Python would take 1_0, +1 and 1.0 for whole numbers, too."""
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]+", value):
        raise PydanticCustomError("digits", "give a whole number, in digits")
    return value


DIGITS: Final = BeforeValidator(_digits)
Position = Annotated[int, Path(ge=0, le=FURTHEST, description="Number of the set, from 0."), DIGITS]
Page = Annotated[int, Query(ge=1, le=LAST_PAGE, description="Which page, from 1."), DIGITS]
Size = Annotated[int, Query(ge=1, le=MOST_ROWS, description="Rows on a page."), DIGITS]
Search = Annotated[
    str, Query(max_length=LONGEST_TEXT, description="A part of the set's id; upper or lower case.")
]
Order = Annotated[Literal["asc", "desc"], Query(description="Missing values come last in both.")]

# --- bodies ---------------------------------------------------------------------------------------


class Body(BaseModel):
    """What all bodies share: fields that are not known are refused."""

    model_config = ConfigDict(extra="forbid")


class Signed(Body):
    """Who does this."""

    by: By = None

    @model_validator(mode="after")
    def of_the_token(self) -> Self:
        """The name is that of the token, if it is a person's."""
        holder = HOLDER.get()
        if holder is not None and holder.name is not None:
            if self.by not in (None, "", holder.name):
                words = f"this token is for {holder.name}; leave `by` out, or give that name"
                raise Refused(403, "name", words)
            self.by = holder.name
        return self


class Remark(Signed):
    """Who does this, and why."""

    note: Note = None


class Asking(Signed):
    """How many questions, for whom."""

    n: Annotated[int, Field(ge=1, le=MOST_ASKED, strict=True, examples=[1]), WHOLE] = 1


class Longer(Signed):
    """For how long."""

    days: Annotated[
        Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False, strict=True)] | None,
        Field(description="Days from now; by default `claim_days` of the study."),
    ] = None


class ChosenSet(Signed):
    """A set, by its position or by its id as it is shown."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"oneOf": [{"required": ["position"]}, {"required": ["set"]}]},
    )

    position: Annotated[Place | SkipJsonSchema[None], Field(examples=[3])] = None
    set: Annotated[
        Text | SkipJsonSchema[None], Field(description="The set's id, instead of its position.")
    ] = None

    @model_validator(mode="after")
    def one_name(self) -> Self:
        both = {"position", "set"} <= self.model_fields_set
        if both or (self.position is None and self.set is None):
            raise ValueError("give either the position of a set or its id as `set`")
        return self


class Skipping(ChosenSet):
    """A set to set aside, and why."""

    note: Note = None


class NewAnswer(ChosenSet):
    """The measured total of a set."""

    total: Annotated[Number, Field(description="In the study's units.", examples=[843.0])]
    note: Note = None
    noise_std: Noise = None
    of: Members = None
    covers: Covers = None
    sure: Sure = False


class PoolChange(Remark):
    """Individuals that join, leave or are corrected."""

    change: Annotated[Literal["add", "drop", "correct"], Field(examples=["add"])]
    csv: Annotated[
        str,
        Field(
            min_length=1,
            description="A CSV table with a row for each individual, as `sumwise pool` reads it. "
            "The body may be up to 4 MB; larger tables are for the shell.",
            examples=["set,id,lunch,enroll\nAnn Arbor,1207,0.31,420\n"],
        ),
    ]
    set: Annotated[
        Text | Annotated[list[Text], Field(min_length=1, max_length=20)] | None,
        Field(description="The column that names the set, or several; the study's own, or `set`."),
    ] = None
    id: Annotated[
        Text | None, Field(description="The column with the individual's id; the study's, or `id`.")
    ] = None


class Correction(Remark):
    """Another total for a set that is answered."""

    total: Annotated[Number, Field(examples=[834.0])]
    noise_std: Annotated[
        Spread | None, Field(description="If left out, the noise does not change; 0 removes it.")
    ] = None
    of: Members = None
    covers: Annotated[Covers, Field(description="As in a new answer; 1 means the whole set.")] = (
        None
    )
    sure: Sure = False
