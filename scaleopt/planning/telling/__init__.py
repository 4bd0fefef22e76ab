"""What a plan says of itself: in words, by its limits, and where its numbers are from."""
