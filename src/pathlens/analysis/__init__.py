"""Questions asked of many explained pairs at once."""
