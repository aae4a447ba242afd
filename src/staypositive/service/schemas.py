"""Requests and responses, with bounds: the OpenAPI schema is made from these."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query as Parameter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from staypositive.inference import Query
from staypositive.service import limits

Label = Annotated[str, StringConstraints(min_length=1, max_length=limits.MOST_LABEL)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Top = Annotated[int, Field(ge=1, le=limits.MOST_TOP)]
Neighbours = Annotated[int, Field(ge=1, le=limits.MOST_NEIGHBOURS)]
Labels = Annotated[tuple[Label, ...], Field(min_length=1, max_length=limits.MOST_CANDIDATES)]
EntityName = Annotated[str, Parameter(min_length=1, max_length=limits.MOST_LABEL, description="Label of an entity.")]
Search = Annotated[str, Parameter(max_length=limits.MOST_LABEL, description="What labels should hold.")]
COMPLETENESS = "Share of all true facts that the graph is taken to have; null: the run's."
Completeness = Annotated[float | None, Parameter(gt=0, lt=1, description=COMPLETENESS)]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)  # a misspelt field is refused, not passed over


class QueryIn(Request):
    """A triple with one part left open (absent or null), or none."""

    head: Label | None = None
    relation: Label | None = None
    tail: Label | None = None

    def query(self) -> Query:
        return Query(self.head, self.relation, self.tail)


class TripleIn(Request):
    head: Label
    relation: Label
    tail: Label


class WithCompleteness(Request):
    completeness: Probability | None = Field(default=None, description=COMPLETENESS)


class Options(WithCompleteness):
    """How queries are answered."""

    top: Top = 10
    exclude_known: bool = Field(default=False, description="Leave out facts of any split.")
    exclude_self: bool = Field(default=False, description="Leave out the entity that is asked about.")
    candidates: Literal["range"] | Labels | None = Field(
        default=None, description="'range': what training facts of the relation have there; or a list of labels."
    )


class PredictIn(Options, QueryIn):
    coverages: bool = Field(
        default=False,
        description="Say of each new answer from which coverage on prediction sets hold it, and how large they are.",
    )


class BatchIn(Options):
    queries: Annotated[tuple[QueryIn, ...], Field(min_length=1, max_length=limits.MOST_QUERIES)]

    @model_validator(mode="after")
    def _bounded(self) -> BatchIn:
        if (rows := len(self.queries) * self.top) > limits.MOST_ROWS:
            raise ValueError(f"queries × top is at most {limits.MOST_ROWS:,}, got {rows:,}")
        return self


class ScoreIn(WithCompleteness):
    triples: Annotated[tuple[TripleIn, ...], Field(min_length=1, max_length=limits.MOST_QUERIES)]


class PredictionSetIn(WithCompleteness, QueryIn):
    coverage: Probability = Field(default=0.9, description="How often the set should hold the true, unknown answer.")
    per_relation: bool = Field(default=True, description="Use the relation's own held-out facts if they are enough.")
    top: Top = Field(default=limits.MOST_TOP, description="Answers listed; `size` counts them all.")


class ExplainIn(TripleIn):
    top: Annotated[int, Field(ge=1, le=limits.MOST_SUPPORT)] = 10


class DiscoverIn(WithCompleteness):
    relations: Annotated[tuple[Label, ...], Field(min_length=1, max_length=limits.MOST_RELATIONS)]
    min_probability: Probability = 0.5
    top: Top = 100


class Triple(BaseModel):
    head: str
    relation: str
    tail: str


class Answer(Triple):
    """A triple with what the model says of it."""

    rank: int
    probability: float | None = Field(description="That it is true; null for known facts, and where none was fitted.")
    log_odds: float | None = Field(description="That it is true, known or not; answers are ordered by it.")
    score: float
    known: bool = Field(description="Whether it is a fact of some split.")
    entry_coverage: float | None = Field(default=None, description="Sets of a coverage above this hold the answer.")


class Assuming(BaseModel):
    completeness: float | None = Field(description="The share of all true facts that the graph is taken to have.")


class Answers(Assuming):
    missing: Literal["head", "relation", "tail", ""]
    answers: list[Answer]
    note: str | None = Field(default=None, description="What is odd about the question.")
    set_sizes: list[int] | None = Field(default=None, description="New answers in sets of coverage 1%, 2%, … 99%.")


class BatchAnswers(Assuming):
    results: list[list[Answer]] = Field(description="The answers of each question, in the order asked.")


class PredictionSet(Assuming):
    coverage: float
    size: int
    answers: list[Answer]


class Triples(Assuming):
    triples: list[Answer]


class SupportingFact(Triple):
    support: float = Field(description="1 is what a training step on the triple itself would do.")


class Explanation(BaseModel):
    facts: list[SupportingFact]


class Entity(BaseModel):
    entity: str
    facts: int = Field(description="How many facts have it.")


class Entities(BaseModel):
    entities: list[Entity]


class SimilarEntity(BaseModel):
    entity: str
    similarity: float = Field(description="The cosine of its row with the asked one's.")


class Similar(BaseModel):
    entities: list[SimilarEntity]


class Relation(BaseModel):
    """A relation: its facts, and how many entities training has as its heads and tails."""

    relation: str
    facts: int
    heads: int
    tails: int


class Relations(BaseModel):
    relations: list[Relation]


class Fact(Triple):
    split: Literal["train", "valid", "test"]


class Facts(BaseModel):
    total: int = Field(description="How many facts the entity has.")
    facts: list[Fact]


class Neighbourhood(BaseModel):
    """The entity first, then neighbours; facts among them by places in `entities` and relation."""

    entities: list[str]
    edges: list[tuple[int, str, int]]
    left_out: int


class RelationStatistics(BaseModel):
    """All triples of one relation."""

    relation: str
    facts: int
    mean: float
    std: float
    new_facts: float | None = Field(default=None, description="True triples that the graph lacks.")
    new_error: float | None = Field(default=None, description="Standard error of `new_facts`.")
    likely: float | None = Field(default=None, description="Unknown triples that reach the threshold.")
    likely_facts: float | None = Field(default=None, description="True ones among these.")


class ScoreStatistics(Assuming):
    threshold: float
    rows: list[RelationStatistics] = Field(description="One per relation, and one for all.")


class About(BaseModel):
    """The run that is served."""

    name: str
    graph: dict[str, int]
    model: str
    objective: str
    dim: int
    completeness: float | None = Field(description="The share of all true facts that the graph is taken to have.")
    shifts: list[tuple[float, float]] = Field(description="Completeness, and what it adds to log-odds.")
    no_probability: str | None = Field(description="Why there are scores alone.")
    prediction_sets: bool = Field(description="Whether there are held-out facts enough for prediction sets.")
    version: str
    example: Triple = Field(description="A fact of the graph, to begin with.")
    limits: dict[str, int]


class Problem(BaseModel):
    code: str
    message: str
    suggestions: list[str] = []


class Failure(BaseModel):
    """The body of every 4xx and 5xx."""

    error: Problem


class State(BaseModel):
    status: Literal["ok", "starting"]
