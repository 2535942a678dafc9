"""What the API gives: the shapes of its answers, from which the OpenAPI document is made.

A set is named by `position`, its number in the study, and by `id`, which is text. Times are UTC in
ISO format. Numbers are in the units of the answers; one that is not finite is null.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field

from sumwise.util.text import json_ready

Real = Annotated[float | None, BeforeValidator(json_ready)]
Cost = Annotated[Real, Field(description="Cost of measuring it; null if measuring has no cost.")]
Spent = Annotated[Real, Field(description="Cost of answers so far; null if measuring has no cost.")]
State = Literal["free", "open", "answered", "skipped"]


class Problem(BaseModel):
    """The reason of a refusal, in words."""

    code: str = Field(examples=["unknown_set"])
    detail: str = Field(examples=["there is no set 12; positions are 0 to 11"])


class SetName(BaseModel):
    """A set."""

    position: int = Field(ge=0, examples=[3])
    id: str = Field(examples=["Ann Arbor"])


class Proposed(BaseModel):
    """A set, or a pool that is proposed."""

    position: int | None = Field(
        ge=0,
        description="Null for a pool that is proposed: it is a set, and has a position, once it is "
        "claimed by its id (`set`).",
        examples=[3],
    )
    id: str = Field(examples=["pool 7"])


class Member(BaseModel):
    """A member of a pool."""

    id: str = Field(description="Id of the individual, as it is shown.", examples=["S017"])
    set: SetName = Field(
        description="Its set when the study began; may be the individual by itself."
    )
    row: int = Field(description="Its number in that set, from 1.")
    weight: Real = Field(description="Its weight in the measurement.")


class Designed(BaseModel):
    """A pool that was designed, in a study that designs its sets; null for other sets."""

    designed: bool = Field(False, description="Whether it is designed or given.")
    members: list[Member] | None = Field(None, description="Members of the pool, in order.")
    bound: Real = Field(None, description="An upper bound on the score of any pool, if known.")
    fraction: Real = Field(None, description="Share of the bound that the pool reaches.")


class Expectation(BaseModel):
    """The predicted total; before the first answer, a guess without a unit."""

    expected: Real
    std: Real = Field(description="Noise included.")
    lower: Real = Field(description="90 % of totals lie between this and `upper`.")
    upper: Real
    low: Real = Field(None, description="Lowest possible total, if outputs have bounds.")
    high: Real = Field(None, description="Highest possible value.")
    exposure: Real = Field(
        None, description="Exposure of the set (counts, amounts) or its trials (shares)."
    )


class Question(Expectation, Designed, Proposed):
    """Measure the total of this set."""

    size: int = Field(description="Individuals in the set.")
    information: Real = Field(description="Nats that the answer is expected to teach.")
    score: Real = Field(description="By the study's strategy; higher is asked sooner.")
    why: str
    runner_up: Proposed | None
    runner_up_score: Real
    cost: Cost
    score_per_cost: Real = Field(description="Sets are ranked by this if measuring has a cost.")
    runner_up_score_per_cost: Real
    individual_std: Real = Field(description="Of a typical individual, before the answer.")
    individual_std_after: Real = Field(description="The same after it.")
    number: int = Field(description="Questions asked before this one.")
    by: str | None
    expires: str | None = Field(description="When the set is free again, if it is held.")


class Questions(BaseModel):
    questions: list[Question]


class Held(BaseModel):
    by: str | None
    number: int
    asked: str
    expires: str


class Claim(Held, Expectation, Designed, SetName):
    """An open question: a set that is being measured."""

    size: int
    why: str | None = Field(description="The reason given when the set was asked for.")
    information: Real
    cost: Cost


class Next(Questions):
    """What would be asked next, and what is being measured."""

    claims: list[Claim]


class Expires(BaseModel):
    expires: str


class Aside(BaseModel):
    by: str | None
    at: str
    note: str | None


class Skip(Aside, SetName):
    """A set that is not asked for."""


class Skips(BaseModel):
    rows: list[Skip]
    total: int


class Answer(Aside, SetName):
    """The present answer of a set."""

    total: float
    noise_std: float | None
    part: str | None = Field(
        description="The part of the set that it covers, in words; null if all.",
        examples=["3 of 5 individuals"],
    )
    of: list[str] | None = Field(description="Members it covers, named as in a new answer.")
    covers: float | None = Field(description="The share that `total` was scaled up from.")


class Unlikely(Expectation, Problem):
    """Nothing was stored: the total is far from its prediction. Send it again with `sure`."""

    code: Literal["unlikely"]


class Answered(Problem):
    """Nothing was stored: the set has another answer already."""

    code: Literal["answered"]
    answer: Answer


class Rows(BaseModel):
    """A page of rows."""

    total: int = Field(description="Rows on all pages.")
    page: int
    size: int


class Answers(Rows):
    rows: list[Answer]


class Event(BaseModel):
    """A line of the study's history."""

    number: int = Field(description="1 for the first.")
    at: str
    what: str = Field(examples=["told"])
    set: SetName | None
    total: float | None
    noise_std: float | None
    by: str | None
    note: str | None
    part: str | None = Field(description="As in an answer.")


class Events(Rows):
    rows: list[Event]


class PoolChanged(BaseModel):
    words: str = Field(examples=["2 individuals joined 2 sets, 1 set new"])


class SetState(Expectation, SetName):
    size: int
    state: State
    information: Real = Field(
        description="Nats that measuring it would teach, as if open questions were answered; "
        "of a set that is being measured, what its own answer would teach; 0 once answered."
    )
    by: str | None = Field(description="The person who answered, holds or skipped it.")
    designed: bool = Field(False, description="Whether it is designed or given.")


class SetRow(SetState):
    """A set of the pool."""

    answer: Real = Field(description="The total that was measured.")


class SetRows(Rows):
    rows: list[SetRow]


class Individual(BaseModel):
    """The prediction for one individual."""

    set: SetName
    row: int = Field(description="Its number within the set, from 1.")
    id: str | None  # of its own, if the study knows one
    inputs: list[float | str | None]
    weight: Real = Field(None, description="In a pool that was designed.")
    mean: Real
    std: Real
    lower: Real
    upper: Real
    rate: Real = Field(None, description="Mean per exposure, or probability (of shares).")
    extrapolates: bool = Field(
        False, description="Whether the rate is over 10 times above or below all measured."
    )


class Individuals(Rows):
    rows: list[Individual]


class OneSet(SetState, Designed):
    """Everything about one set."""

    why: str | None = Field(description="Why it was asked for, if it is being measured.")
    answer: Answer | None
    claim: Held | None
    skip: Aside | None
    pools: list[SetName] = Field(
        description="Designed pools of the individual, if the study designs sets."
    )
    individuals: Individuals


class Places(BaseModel):
    """Inputs that are coordinates."""

    x: str
    y: str


class Counts(BaseModel):
    """How far a study is."""

    name: str
    strategy: str
    sets: int
    answers: int
    skipped: int
    questions: int = Field(description="Number of questions so far.")
    spent: Spent
    words: list[str]


class About(BaseModel):
    """What is measured."""

    outcome: str | None = Field(examples=["maths score"])
    unit: str | None = Field(examples=["points"])
    individual: str | None = Field(description="What an individual is called.", examples=["school"])
    outputs: Literal["numbers", "counts", "shares", "amounts"] = Field(
        description="Kind of outputs; tell counts and shares as whole numbers."
    )
    word: Literal["total", "mean", "weighted sum", "count"] = Field(
        description="What measuring a set gives."
    )
    title: str = Field(description="The same, and of what.", examples=["count of deaths"])
    low: float | None = Field(description="Lowest possible output of an individual.")
    high: float | None = Field(description="Highest possible value.")


class Designing(BaseModel):
    """How a study designs its sets."""

    alone: bool = Field(
        description="Whether it began with individuals, and asks for pools alone; otherwise given "
        "sets and pools compete."
    )
    begun: int = Field(
        description="Sets that the study began with, individuals by themselves among them: those "
        "at later positions are pools."
    )
    candidates: int = Field(description="Number of individuals from which pools are designed.")
    used: int = Field(description="How many of them are or were in a measured or skipped pool.")
    aside: int = Field(description="How many of them are set aside, and can be in no pool.")
    uses: int | None = Field(description="In how many pools each may be; null for any number.")
    smallest: int = Field(description="Fewest members of a pool.")
    largest: int


class Study(Counts):
    """What the study is, and how far it is."""

    about: About
    designing: Designing | None = Field(description="Null where all sets are given.")
    individuals: int
    inputs: list[str]
    known: int = Field(
        description="Areas and individuals known from the start, which are never asked for and "
        "not counted among `sets` and `answers`."
    )
    members_by: Literal["id", "row"] | None = Field(
        description="How members of a set are named: by ids of their own, or by their numbers "
        "within the set; null where individuals stay in their files."
    )
    set_columns: list[str] = Field(description="Set columns of the original table, if known.")
    id_column: str | None
    open: int
    claim_days: float
    changes: int = Field(description="A counter that grows with every change.")
    level: float = Field(description="Coverage of intervals from `lower` to `upper`.")
    version: str
    map: bool = Field(description="Whether sets or individuals have shapes or coordinates.")
    places: Places | None
    writable: bool = Field(description="Whether the token of this request allows to write.")
    you: str | None = Field(description="Whose token this is, if it is that of a person.")


class Proof(BaseModel):
    """That the server has a token, without saying it."""

    run: str = Field(description="New whenever the server starts.")
    proof: str = Field(description="HMAC-SHA-256 of the run and the nonce.")


class Suspect(SetName):
    """An answer that is farther from its leave-one-out prediction than chance explains."""

    total: float
    expected: Real = Field(description="Predicted from all other answers.")
    std: Real = Field(description="Noise included.")
    z: Real = Field(description="Standard deviations between the answer and its prediction.")
    moves: Real = Field(
        description="How far predictions move without it, per individual (root mean square); "
        "null where models take long to learn."
    )


class Status(Counts):
    """How much there is still to learn, and what to check."""

    headline: list[str] = Field(
        description="The first of `words`: which answer to check, and that the model does not "
        "beat guessing the mean. Empty if there is nothing to say of either."
    )
    suspects: list[Suspect] = Field(
        description="Answers that may be wrong; check the first one first."
    )
    typical_error: Real = Field(description="Leave-one-out error per individual.")
    typical_naive_error: Real = Field(
        description="The same with the mean of the other answers as the prediction."
    )
    open_claims: int
    information_left: Real
    mean_variance: Real
    mean_variance_after: Real
    next_questions: int
    noise_variance: Real
    next_cost: Real = Field(description="Cost of open claims and of the next questions.")
    enough: Real = Field(description="Improvement, in units of the outputs, below which to stop.")
    improvement: Real = Field(
        description="How much less uncertain predictions should be (standard deviation, noise of "
        "individuals left out) once open claims and the next questions are answered."
    )
    stop: bool | None = Field(
        description="Whether further questions no longer pay; null if unknown."
    )
    advice: str | None = Field(description="The same in a sentence, one of `words`.")
    individual_std: Real = Field(description="Of a typical individual, as predictions have it.")
    individual_std_after: Real = Field(description="Once open and next questions are answered.")
    individual_std_all: Real = Field(description="If all sets were measured; null if not known.")
    guess_std: Real = Field(description="What guessing the mean for every individual is off by.")
    explained: Real = Field(description="Share of that variance that the model explains, it says.")
    set_std: Real = Field(description="Of the mean of a typical set; null where there is none.")
    set_std_after: Real
    worth: bool | None = Field(description="Whether to go on: by the threshold, or by 1 %.")
    going_on: str | None = Field(description="The same in a sentence, one of `words`.")


class Table(BaseModel):
    """The numbers behind a chart."""

    columns: list[str]
    rows: list[list[int | float | str | None]]


class Chart(BaseModel):
    """A chart, its words and its numbers; where there is too little to draw, words alone."""

    title: str
    chart: dict[str, Any] | None = Field(description="A Vega-Lite specification.")
    words: list[str]
    table: Table
