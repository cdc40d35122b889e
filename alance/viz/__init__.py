"""Pictures of what a read did."""
