"""Small tools with no knowledge of statistics: text, files, progress, array types."""
