"""The report of a comparison, as Markdown and as a page: a list of sections, each made by one function."""
