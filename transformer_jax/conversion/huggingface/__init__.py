"""From and to Hugging Face's folders."""
