"""What a practitioner would try first, on the same folds and the same rarefied table."""
