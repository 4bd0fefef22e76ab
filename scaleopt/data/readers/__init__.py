"""Foreign logs as our table: one format a file, each found by its content.

A reader is fed one line after another and keeps the rows of each table it meets, as printed.
What the log says only elsewhere (how many devices, which operation) is settled at the end, in
`settle`: there sizes become bytes of the full array, and every printed bandwidth is held against
the size and time beside it. What does not agree is reported, never repaired.
"""
