"""Tools that write or check committed parts of the project."""
