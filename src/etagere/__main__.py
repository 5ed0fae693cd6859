"""`python -m etagere` is `etagere`."""

from etagere.app.cli import main

if __name__ == "__main__":
    main()
