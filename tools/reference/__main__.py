"""Write the generated sections of all pages: ``python -m tools.reference``."""

import sys

from tools.reference.pages import ROOT, outdated_pages


def main() -> None:
    """Write every page whose generated sections are not what the code says, and name it."""
    for path, text in outdated_pages().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
