"""What goes in and what comes out, with bounds: the OpenAPI schema is made from these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from staypositive.inference import Query
from staypositive.service.limits import (
    MOST_CANDIDATES,
    MOST_LABEL,
    MOST_QUERIES,
    MOST_RELATIONS,
    MOST_ROWS,
    MOST_SUPPORT,
    MOST_TOP,
)

Label = Annotated[str, StringConstraints(min_length=1, max_length=MOST_LABEL)]
Probability = Annotated[float, Field(gt=0, lt=1)]
Top = Annotated[int, Field(ge=1, le=MOST_TOP)]


class Asked(BaseModel):
    """A request: unknown fields are refused, so that a misspelt one is not passed over."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class QueryIn(Asked):
    """A triple with one part left open (absent or null), or none."""

    head: Label | None = None
    relation: Label | None = None
    tail: Label | None = None

    def query(self) -> Query:
        """Return what the library asks with."""
        return Query(self.head, self.relation, self.tail)


class TripleIn(Asked):
    """A whole triple by its labels."""

    head: Label
    relation: Label
    tail: Label


class Options(Asked):
    """How queries are answered."""

    top: Top = 10
    exclude_known: bool = Field(False, description="Leave out facts of any split.")
    exclude_self: bool = Field(False, description="Leave out the entity that is asked about.")
    candidates: (
        Literal["range"] | Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_CANDIDATES)] | None
    ) = Field(None, description="'range': what training facts of the relation have there; or a list of labels.")
    prior: Probability | None = Field(None, description="Share of true triples to assume; null: the run's.")


class PredictIn(Options, QueryIn):
    """One question, or one triple to judge."""

    coverages: bool = Field(
        False,
        description="Say of each new answer from which coverage on prediction sets hold it, and how large they are.",
    )


class BatchIn(Options):
    """Many questions, answered alike."""

    queries: Annotated[tuple[QueryIn, ...], Field(min_length=1, max_length=MOST_QUERIES)]

    @model_validator(mode="after")
    def _bounded(self) -> BatchIn:
        if len(self.queries) * self.top > MOST_ROWS:
            raise ValueError(f"queries × top is at most {MOST_ROWS:,}, got {len(self.queries) * self.top:,}")
        return self


class ScoreIn(Asked):
    """Triples to judge."""

    triples: Annotated[tuple[TripleIn, ...], Field(min_length=1, max_length=MOST_QUERIES)]
    prior: Probability | None = None


class AnswerSetIn(QueryIn):
    """A question whose answers come as a set with a promise."""

    coverage: Probability = Field(0.9, description="How often the set should hold the true, yet unknown answer.")
    per_relation: bool = Field(True, description="Use the relation's own held-out facts where there are enough.")
    top: Top = Field(MOST_TOP, description="Answers listed; `size` counts them all.")
    prior: Probability | None = None


class SupportIn(TripleIn):
    """A triple whose support is asked for."""

    top: Annotated[int, Field(ge=1, le=MOST_SUPPORT)] = 10


class DiscoverIn(Asked):
    """A search for new triples of some relations."""

    relations: Annotated[tuple[Label, ...], Field(min_length=1, max_length=MOST_RELATIONS)]
    min_probability: Probability = 0.9
    prior: Probability | None = None
    top: Top = 100


class Answer(BaseModel):
    """A triple with what the model says of it."""

    head: str
    relation: str
    tail: str
    rank: int
    probability: float
    log_odds: float = Field(description="Of the probability. Another prior adds logit(new) − logit(old).")
    score: float
    known: bool = Field(description="Whether it is a fact of some split.")
    entry_coverage: float | None = Field(
        None, description="prediction sets of a coverage above this hold the answer."
    )


class Answers(BaseModel):
    """The answers of one question, best first."""

    missing: Literal["head", "relation", "tail", ""]
    prior: float = Field(description="The share of true triples that the probabilities assume.")
    answers: list[Answer]
    set_sizes: list[int] | None = Field(None, description="New answers in the sets of coverage 1%, 2%, … 99%.")


class BatchAnswers(BaseModel):
    """The answers of each question, in the order asked."""

    prior: float
    results: list[list[Answer]]


class AnswerSet(BaseModel):
    """New answers that hold the true one with the probability `coverage`."""

    coverage: float
    prior: float
    size: int
    answers: list[Answer]


class Triples(BaseModel):
    """Triples, judged."""

    prior: float
    triples: list[Answer]


class Supporter(BaseModel):
    """A training fact, and how much it supports the triple."""

    head: str
    relation: str
    tail: str
    support: float = Field(description="1 is what a training step on the triple itself would do.")


class SupportOut(BaseModel):
    """The training facts that support a triple most."""

    facts: list[Supporter]


class Entity(BaseModel):
    """An entity and how many facts have it."""

    entity: str
    facts: int


class Entities(BaseModel):
    """What a search found, best first."""

    entities: list[Entity]


class SimilarEntity(BaseModel):
    """An entity and the cosine of its row with the asked one's."""

    entity: str
    similarity: float


class Similar(BaseModel):
    """The entities most like one."""

    entities: list[SimilarEntity]


class Relation(BaseModel):
    """A relation: its facts, and how many entities training has as its heads and tails."""

    relation: str
    facts: int
    heads: int
    tails: int


class Relations(BaseModel):
    """All relations, in the graph's order."""

    relations: list[Relation]


class Fact(BaseModel):
    """A fact and the split that states it."""

    head: str
    relation: str
    tail: str
    split: Literal["train", "valid", "test"]


class Facts(BaseModel):
    """Some facts of an entity, and how many it has."""

    total: int
    facts: list[Fact]


class NeighbourhoodOut(BaseModel):
    """The entity first, then neighbours; facts among them by places in `entities` and relation."""

    entities: list[str]
    edges: list[tuple[int, str, int]]
    left_out: int


class CensusRow(BaseModel):
    """All triples of one relation."""

    relation: str
    facts: int
    triples: int
    mean: float
    std: float
    normal: float | None = Field(None, description="Likely ones, if scores were normal; not with every calibrator.")
    sampled: float
    low: float
    high: float


class ScoreStatistics(BaseModel):
    """One row a relation, and one for all."""

    threshold: float
    prior: float
    samples: int
    rows: list[CensusRow]


class About(BaseModel):
    """The run that is served."""

    name: str
    graph: dict[str, int]
    model: str
    objective: str
    dim: int
    calibration: str | None
    base_prior: float
    prediction_sets: bool = Field(description="Whether there are held-out facts enough for prediction sets.")
    version: str
    example: TripleIn = Field(description="A fact of the graph, to begin with.")
    limits: dict[str, int]


class Problem(BaseModel):
    """What was wrong with a request."""

    code: str
    message: str
    suggestions: list[str] = []


class Failure(BaseModel):
    """The body of every 4xx and 5xx."""

    error: Problem


class State(BaseModel):
    """Whether the service lives, or is ready."""

    status: Literal["ok", "starting"]
