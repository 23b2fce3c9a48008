"""The page of a dataset's results: what it says, and how it is put together."""
