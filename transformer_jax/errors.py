"""The one exception that means: the person who runs this can put it right."""


class UserError(ValueError):
    """A mistake of the user's, said in one sentence that names the field, its value and the remedy.

    The commands print it without a trace and exit with code 2.
    """
