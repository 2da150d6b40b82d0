"""Rows from files, folders and data sets of other libraries."""
