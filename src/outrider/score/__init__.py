"""Scoring saved generations against a task: no model is needed."""
