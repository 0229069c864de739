package dialect

// AnthropicThoughts is the format of an entry of reasoning_details whose signature or
// data Anthropic's models read again (addendum 5.2).
const AnthropicThoughts = "anthropic-claude-v1"
