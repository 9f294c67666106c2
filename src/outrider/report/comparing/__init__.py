"""The sections of a comparison, with one section per file; each section is a function of the compared runs."""
