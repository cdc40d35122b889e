"""Changes of a table as a stream: what each version inserted, updated and deleted.

`diff` compares two versions by the rows of the fragments that differ, `tokens` names a place in the
stream, `follow` goes from version to version and waits for the next one.
"""
