package anthropic

import (
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
)

// Vendor is Native for upstreams at Anthropic's own addresses, which count tokens besides
// the messages. Clouds that sell its models count elsewhere, or not at all.
type Vendor struct{ Native }

var _ dialect.Counter = Vendor{}

var countPath = []byte("/messages/count_tokens")

// Count is dialect.Counter's.
func (Vendor) Count(r *proxy.Request, c *dialect.Chat, t *dialect.Target, s *dialect.Scratch) error {
	fillRequest(r, c, t, s)
	r.Path = countPath
	return nil
}

// Counted is dialect.Counter's.
func (Vendor) Counted(body []byte) (tokens int64, ok bool) {
	if !dialect.IsObject(body) {
		return 0, false
	}
	for m := range jsontext.Members(body, 1) {
		if string(m.Key) == "input_tokens" {
			return jsontext.ReadCount(body[m.From:m.To])
		}
	}
	return 0, false
}
