"""How many devices are best for a step whose time is known."""
