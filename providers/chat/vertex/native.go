package vertex

import (
	"slices"
	"time"

	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/messages"
	"farebox/proxy"
)

// Native gives Claude the bodies of Messages as clients wrote them, and clients its
// answers as they come.
type Native struct{ anthropic.Native }

var _ dialect.Dialect = Native{}

// betas are those that Vertex knows.
var betas = anthropic.CloudBetas{
	"advanced-tool-use-2025-11-20":        "tool-search-tool-2025-10-19",
	"context-management-2025-06-27":       "context-management-2025-06-27",
	"interleaved-thinking-2025-05-14":     "interleaved-thinking-2025-05-14",
	"thinking-display-updates-2026-08-18": "thinking-display-updates-2026-08-18",
}

// Takes is dialect.Choosy's.
func (Native) Takes(c *dialect.Chat, _ *dialect.Target) bool { return !anthropic.Instructs(c) }

// Request is that of messages, with the version in the place of the model.
func (n Native) Request(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	if err := n.Native.Request(r, c, t, s); err != nil {
		return err
	}
	betas.Keep(r, c)
	f := &c.ToldDoc.Fields[c.ToldDoc.TopIndex(messages.TopModel)] // no body is read without one
	version := proxy.Patch{From: int(f.KeyFrom), To: int(f.To), With: versionMember}
	at, named := slices.BinarySearchFunc(r.Patches, int(f.From), func(p proxy.Patch, from int) int { return p.From - from })
	if named {
		r.Patches[at] = version
	} else {
		r.Patches = slices.Insert(r.Patches, at, version)
	}
	address(r, c, t, s)
	return nil
}

// Error reads an error answer of the model, or one of Google's in front of it.
func (n Native) Error(status int, retryAfter time.Duration, body []byte) dialect.Failure {
	status, body = ownError(status, body)
	return n.Native.Error(status, retryAfter, body)
}
