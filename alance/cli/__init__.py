"""The alance command."""
