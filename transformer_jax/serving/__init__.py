"""The server: batches across requests, behind the HTTP interface of LibreTranslate."""
