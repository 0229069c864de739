package dialect

// usageSlack is how many tokens an upstream's count may be below ours before
// it is not believed: tokenizers differ, and short answers differ most.
const usageSlack = 64

// Settle is the charged usage of an answer. reported is the last usage that the
// upstream told, perhaps none; final says that it told it of the whole answer.
//
// A usage is believed as far as the bytes that were delivered do not contradict
// it. It is counted instead if the answer has no usage, when the answer did not come to
// its end (some upstreams send zeros until then), when it names no completion
// next to a text, or less than half of the text and more than usageSlack tokens
// short of it. Whatever the count, it stays within the request's limits.
//
// An upstream whose usage cannot be true may tell such a one for every answer. Above
// Doubts.mayCount a sample of a long text represents all of it (Produced.sample).
//
// Data other than text contradicts no usage, unless that names no completion at all; it is
// priced by its size where no usage tells. Of an answer that we broke off ourselves
// (Chat.BrokenOff) only known text is counted.
func Settle(reported Usage, final bool, text *Produced, c *Chat) Usage {
	u := prompt(reported, c)
	if !final || !u.Seen || u.Completion == 0 && text.worth > 0 || contradicts(text.deltas, u.Completion) ||
		MayContradict(text.bytes, u.Completion) && MayContradict(text.plain(), u.Completion) {
		tokens, reasoning := text.count(c, final && u.Seen)
		worth := text.Worth()
		if c.BrokenOff {
			tokens, worth = text.known(tokens), 0
		}
		u.count(tokens, worth, reasoning, final)
	}
	c.bound(&u)
	return u
}

// prompt fills in the prompt that an upstream did not tell.
func prompt(u Usage, c *Chat) Usage {
	switch {
	case u.Prompt > 0:
	case c.Embedding && u.Total > 0:
		u.Prompt = u.Total
	default:
		u.Prompt, u.Estimated = CountPrompt(c), true
		if u.Total > 0 {
			u.Prompt = min(u.Prompt, u.Total)
		}
	}
	u.Completion = max(u.Completion, u.Total-u.Prompt)
	u.Total = 0 // it is used up
	return u
}

// count takes our count of the text, and the worth of all else, where the usage is
// missing or cannot be true.
func (u *Usage) count(tokens, worth, reasoning int64, final bool) {
	if u.Seen && (final && (u.Completion > 0 || worth == 0) || tokens+worth <= u.Completion) &&
		!contradicts(tokens, u.Completion) {
		return
	}
	u.Completion, u.Estimated = max(u.Completion, tokens+worth), true
	u.Reasoning = max(u.Reasoning, reasoning)
}

// contradicts says that a text of counted tokens cannot have used reported ones.
func contradicts(counted, reported int64) bool {
	return counted > 0 && (reported == 0 || counted > 2*reported && counted > reported+usageSlack)
}

// MayContradict says, without tokenising, whether a text of so many bytes may
// contradict a completion of n tokens. A token has hardly ever less than three
// bytes on average.
func MayContradict(bytes, n int64) bool { return contradicts(bytes/3, n) || n == 0 && bytes > 0 }

// bound keeps a usage within the request's possible use, so that no number
// of an upstream ruins a customer. The excess is in Claimed.
func (c *Chat) bound(u *Usage) {
	u.Bound()
	if c.Embedding {
		u.Completion, u.Reasoning = 0, 0
	}
	if c.Cap > 0 && u.Completion > c.Cap {
		u.Claimed, u.Completion = u.Claimed+u.Completion-c.Cap, c.Cap
	}
	if c.MostPrompt > 0 && u.Prompt > c.MostPrompt {
		u.Claimed, u.Prompt = u.Claimed+u.Prompt-c.MostPrompt, c.MostPrompt
	}
	u.Bound()
}

// Vocabulary is the vocabulary that counts the model's text.
func (c *Chat) Vocabulary() string {
	if c.Model == nil {
		return ""
	}
	return c.Model.Tokenizer
}
