"""Local S3 and GCS server for tests and demos, and a meter of event loop stalls."""
