"""Rollouts that other frameworks wrote, as one plain table."""
