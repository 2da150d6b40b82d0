"""Characters of a text → words, sentences, spans and trees. No model, no tensor of one."""
