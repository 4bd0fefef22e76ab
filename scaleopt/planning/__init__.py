"""From a fitted model to a decision."""
