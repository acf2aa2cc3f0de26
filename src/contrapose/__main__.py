"""`python -m contrapose`: the command line."""

from contrapose.cli import main

if __name__ == "__main__":
    main()
