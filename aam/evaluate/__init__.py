"""What scores predictions: metrics, intervals, tests between learners, reports of a task."""
