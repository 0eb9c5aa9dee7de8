"""Where datasets come from. A source is a module with these names, and knows nothing of the others:

`PATTERN`                          what its datasets are called, for people
`names()`                          those it can name, in order
`lookup(name)`                     the DatasetSpec; InputError where there is none
`open_store(name, progress, path)` the EpisodeStore, made on first use; InputError where it cannot be had
`download(name, progress)`         fetches what a store is made from and returns its paths; InputError likewise
"""
