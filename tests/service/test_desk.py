"""What the desk does before it asks the model."""

from __future__ import annotations

from unittest.mock import patch

import pytest

import staypositive as sp
from staypositive.errors import UnknownLabelError
from staypositive.graph import Vocabulary
from staypositive.inference import Query
from staypositive.service.query_service import Desk, Job


def test_a_batch_ends_at_the_first_question_that_cannot_be_asked(geo_run: sp.Run) -> None:
    jobs = [Job(Query(f"Nowhere {number}", "borders", None)) for number in range(1000)]
    with patch.object(Vocabulary, "nearest", return_value=[]) as nearest:
        with pytest.raises(UnknownLabelError, match=r"^query 0: no entity is called 'Nowhere 0'"):
            Desk(geo_run).answer_batch(jobs)
        assert nearest.call_count == 1
