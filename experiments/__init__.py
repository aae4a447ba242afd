"""What was measured with staypositive, and how: run from a checkout as `python -m experiments`."""
