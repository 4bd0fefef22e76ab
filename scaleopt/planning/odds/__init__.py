"""How sure a choice is, on machines drawn from a fit."""
