"""Reading what a user hands over: every problem of a file is found here and named at once."""
