"""`python -m aam`: the command `aam`, where it is not on the path."""

from aam.cli import main

if __name__ == "__main__":
    main()
