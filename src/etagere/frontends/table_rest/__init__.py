"""Table service REST: paths, JSON and batches to operations, and back."""
