"""A project that extends the frontier."""
