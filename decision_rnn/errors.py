"""The one error a user is meant to read."""


class InputError(Exception):
    """Something the user gave us cannot be used.

    The message is one sentence that names the file or key, says what is wrong with it and what to do. The
    command line prints it without a traceback and exits with code 2.
    """
