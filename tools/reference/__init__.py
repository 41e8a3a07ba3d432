"""The generated sections of the documentation: ``python -m tools.reference`` writes them, and a test compares them.

A page has its hand-written text and, between two comments, what the code says::

    <!-- generated: metrics -->
    ...
    <!-- end of generated -->

The word after the colon names a section of ``tools.reference.pages.SECTIONS``. Edit the code, not what is between the
comments, and run ``make reference``.
"""
