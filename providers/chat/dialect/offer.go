package dialect

import (
	"farebox/config"
	"farebox/providers/health"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Model is one model of the catalog, immutable but for Slot and Doubts.
type Model struct {
	ID     string
	Config *config.Model
	// Chat is the Spec of a model that writes; without values for others.
	Chat *config.Chat
	// Tokenizer counts the text of the model; Price is that of its tokens, nil
	// where none are sold.
	Tokenizer string
	Price     *config.Price
	// DefaultCompletion is the cap of requests that name none.
	DefaultCompletion int64
	// PreferFast says that targets much slower than others lose their turns.
	PreferFast bool
	// Room is the most tokens of a prompt, as far as the operator says so.
	Room int64
	Rate *config.Rate // of its tier
	// Index is the model's place in the catalog, Slot the ledger's number of it,
	// which the caller sets before the catalog is used.
	Index, Slot int
	// HeaderName is the display name as a header can carry it; empty: it cannot.
	HeaderName string
	// Targets in the order of their priority.
	Targets []*Target

	// SystemPrompt is the operator's, SystemMessage the message it makes, with
	// a comma after it.
	SystemPrompt  string
	SystemMessage []byte
	// ImageTokens is the weight of an attachment in a prompt.
	ImageTokens int64
	// Doubts bounds the work for usages that cannot be true.
	Doubts Doubts
}

// Target is one upstream that serves a model. Immutable but for its health and times.
type Target struct {
	Upstream *Upstream
	Model    *Model
	// Name is the upstream's name of the model; Quoted as a JSON string.
	Name   string
	Quoted []byte
	// Renames says that answers carry another model name than the client must
	// see; QuotedID is the one to write.
	Renames  bool
	QuotedID []byte

	// Thinking is the operator's word on how the model is asked to think, where
	// the dialect has several ways; empty: the dialect knows by the name.
	Thinking string

	Weight, Priority int
	Breaker          *health.Breaker
	// Paces are how fast whole answers and streams come, of targets that have equals.
	// Models that use the same model of an upstream share them, and the breaker.
	Paces *[2]health.Pace
	Meter *health.Meter
	// Pictures is the *image.Target of a model that makes pictures, else nil;
	// package image is above this one.
	Pictures any
	// Jobs is the *queue.Target of a model that takes jobs, else nil.
	Jobs any
	// Sound is the same of a model that speaks or hears: an *audio.Target.
	Sound any
}

// Pace is how fast streamed or whole answers come.
func (t *Target) Pace(streamed bool) *health.Pace {
	if streamed {
		return &t.Paces[1]
	}
	return &t.Paces[0]
}

// Upstream is one endpoint with its connections.
type Upstream struct {
	Name    string // the operator's label, for logs and metrics only
	Config  *config.Upstream
	Dialect Dialect
	// Natives speak to an upstream that takes the bodies of a form as its clients write
	// them. Bodies of the others are asked as chat completions.
	Natives map[FormKind]Dialect
	Proxy   *proxy.Endpoint
	// Drops are the members of a chat body, by their ids, that are not sent here;
	// CutsTTL says that the lifetimes of cached prompts are not.
	Drops   []int
	CutsTTL bool
}

// SetDrops resolves the upstream's list of members against the Shape of chat
// bodies.
func (u *Upstream) SetDrops(chat *scan.Shape) {
	u.Drops, u.CutsTTL = nil, false
	for _, name := range u.Config.Drop {
		if name == config.DropCacheTTL {
			u.CutsTTL = true
		} else if id := chat.ID(name); id >= 0 {
			u.Drops = append(u.Drops, id)
		}
	}
}

// AppendSystemMessage appends a system message with a comma after it.
func AppendSystemMessage[T string | []byte](dst []byte, prompt T) []byte {
	dst = jsontext.AppendString(append(dst, `{"role":"system","content":`...), prompt)
	return append(dst, "},"...)
}
