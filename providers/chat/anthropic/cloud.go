package anthropic

import (
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
)

// CloudBetas are the features in anthropic-beta that a cloud knows which sells Anthropic's
// models, by Anthropic's names of them. Clouds refuse requests that name others.
type CloudBetas map[string]string

// Keep leaves the betas that the cloud knows in a request that Native has made.
func (cb CloudBetas) Keep(r *proxy.Request, c *dialect.Chat) {
	if r.Further[0][0] != betaHeader {
		return
	}
	var kept []string
	for beta := range strings.SplitSeq(r.Further[0][1], ",") {
		if name := cb[beta]; name != "" {
			kept = append(kept, name)
		} else {
			c.LeftOut.Add(betaHeader)
		}
	}
	r.Further = proxy.Fields{}
	if len(kept) > 0 {
		r.Further[0] = [2]string{betaHeader, strings.Join(kept, ",")}
	}
}

// Instructs says that a message of the conversation is the system's. Clouds are not known
// to take one: they are asked in the words of Dialect, which has a place for it.
func Instructs(c *dialect.Chat) bool {
	f, ok := c.Form.(*messages.Form)
	return ok && f.Instructs()
}
