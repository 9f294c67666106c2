"""What table, tokenizer and configuration alone decide about a run, found before any weights are loaded."""
