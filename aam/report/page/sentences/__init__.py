"""The sentences of the page: each is a function of numbers and names that returns a text."""
