// Package responsestest judges responses and their events as OpenAI's packages do.
// openai-go must know every event, with all members that its types require and none beyond
// them. A client that adds the events up must get the response of the last one.
//
// Check judges a whole stream, CheckResponse one response. Only tests import it; nothing
// that serves requests may.
package responsestest
