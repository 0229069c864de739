package routes

// Characters are personas for chats (addendum 18). A character is its prompt, which no answer,
// error or log has in it.
type Characters interface {
	// Prompt is the system prompt of a character, behind the operator's own where the
	// client did not turn that off; false: there is no such character.
	Prompt(c *Call, slug string, operators bool) (prompt []byte, found bool)
	// Used notes that the account of the request was answered by a character.
	Used(c *Call, slug string)
}
