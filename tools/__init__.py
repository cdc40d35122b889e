"""What makes parts of the project that are committed."""
