"""File version 0.1: batches of rows, with one page per field and batch, and a page table."""
