"""The sections of a comparison, one per file. A function in each file builds the section from the compared runs."""
