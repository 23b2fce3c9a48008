"""What scores predictions: errors, intervals, tests between learners, reports of a task."""
