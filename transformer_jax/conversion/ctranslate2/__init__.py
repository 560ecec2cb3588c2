"""To CTranslate2, and to Argos Translate, which uses it."""
