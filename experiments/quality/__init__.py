"""How well settings do that no page of the paper has."""
