"""Changes of a table as a stream: what each version inserted, updated and deleted.

`diff` compares two versions by the rows of the fragments that differ, `tokens` encodes positions in
the stream, and `follow` reads version after version and waits for the next one.
"""
