DROP TABLE push_tokens;
