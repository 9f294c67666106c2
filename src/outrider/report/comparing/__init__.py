"""The sections of a comparison, one per file; each section is a function of the compared runs."""
