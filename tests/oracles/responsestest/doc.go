// Package responsestest judges responses and their events as OpenAI's packages do: every
// event must be one that openai-go knows, with all members that its types require and
// none that they do not have, and a client that adds the events up must come to what the
// last one says.
//
// Check judges a whole stream, CheckResponse one response. Only tests import it; nothing
// that serves requests may.
package responsestest
