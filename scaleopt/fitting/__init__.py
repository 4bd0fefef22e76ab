"""From raw rows to a model with honest intervals; nobody aggregates or draws error bars before."""
