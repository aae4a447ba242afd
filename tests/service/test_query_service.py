"""What the query service does before it asks the model."""

from __future__ import annotations

from unittest.mock import patch

import pytest

import staypositive as sp
from staypositive.errors import UnknownLabelError
from staypositive.graph import Vocabulary
from staypositive.service.query_service import QueryService
from staypositive.service.schemas import BatchIn


def test_a_batch_ends_at_the_first_question_that_cannot_be_asked(geo_run: sp.Run) -> None:
    asked = BatchIn(queries=[{"head": f"Nowhere {number}", "relation": "borders"} for number in range(1000)])
    with patch.object(Vocabulary, "nearest", return_value=[]) as nearest:
        with pytest.raises(UnknownLabelError, match=r"^query 0: no entity is called 'Nowhere 0'"):
            QueryService(geo_run).answer_batch(asked)
        assert nearest.call_count == 1
