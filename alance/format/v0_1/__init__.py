"""File version 0.1: batches of rows, one page for each field and batch, a page table."""
