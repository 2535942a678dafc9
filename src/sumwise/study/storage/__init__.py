"""What a study is kept as: numbers, text and open formats, in a database."""
