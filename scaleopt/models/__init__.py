"""What theory says: pure, differentiable formulas, each a few lines that are its equation."""
