"""What a person, or another program, gets to see; nothing is computed here."""
