package dialect

// Settle completes the usage of an answer that did not come to its end, or
// whose upstream never said: reported is the last usage that was seen, perhaps
// none. What was produced is charged, whatever had been reported of it so far
// (some upstreams send zeros until the end).
func Settle(reported Usage, text *Produced, c *Chat) Usage {
	u := reported
	vocabulary := ""
	if c.Model != nil {
		vocabulary = c.Model.Config.Tokenizer
	}
	tokens, reasoning, _ := text.Count(vocabulary)
	if tokens > u.Completion || !u.Seen {
		u.Completion, u.Estimated = max(u.Completion, tokens), true
		u.Reasoning = max(u.Reasoning, reasoning)
	}
	if u.Prompt == 0 {
		u.Prompt, u.Estimated = CountPrompt(c), true
	}
	u.Bound()
	return u
}
