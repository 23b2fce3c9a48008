"""Tables, sequences, trees, metadata and the stores made of them."""
