"""The sections of a comparison, one per file. Each section is built by a function of the compared runs."""
