"""What a browser sees: the page, the description of the API."""
