"""What a user asks of a plan, and what is refused."""
