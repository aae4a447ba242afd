"""`python -m staypositive` is the command line."""

from staypositive.cli import main

if __name__ == "__main__":
    main()
