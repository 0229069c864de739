package config

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Chat is the Spec of a model that writes (type text).
type Chat struct {
	// Tokenizer for estimates.
	Tokenizer string `yaml:"tokenizer" default:"o200k_base" oneof:"o200k_base cl100k_base"`
	// Size of the context. Required.
	ContextTokens int64 `yaml:"context_tokens" range:"1..100000000"`
	// Most completion tokens of an answer. Default: the smaller of context_tokens and 16384.
	MaxCompletionTokens int64 `yaml:"max_completion_tokens"`
	// Prompt tokens that the upstreams add to each request, such as a system prompt of their own. Money is held for
	// them, and up to so many more tokens of a prompt are charged where an upstream reports them.
	PromptOverhead int64 `yaml:"prompt_overhead" default:"0" range:"0..1000000"`
	// Among targets of the same priority those that answer much more slowly than the fastest, or fail more, lose their
	// turns until they are fast again; one request in 32 may find out. With false only weights count.
	PreferFast bool `yaml:"prefer_fast" default:"true"`
	// The model's features. Requests for features that are false or not written get 400.
	Capabilities Capabilities `yaml:"capabilities"`
	// The model's own sampling values, shown in the catalog. Default: not shown; temperature 0.7
	// and top_p 1.0 where others are.
	Constraints Constraints `yaml:"constraints"`
	// USD per 1,000,000 tokens, at most 6 decimals, 0 to 100000. Required: a model without a price is not offered.
	// Write price: free if it is free.
	Price *Price `yaml:"price"`
	// The model runs in an enclave: each target must attest itself. Default: none does.
	Enclave *Enclave `yaml:"tee"`
}

// Capabilities as in addendum 7.4 (text).
type Capabilities struct {
	// Made for code.
	Code bool `yaml:"code"`
	// Number format of the weights, shown in the catalog.
	Quantization string `yaml:"quantization" default:"not-available" oneof:"fp4 fp8 fp16 bf16 int8 int4 not-available"`
	// It calls tools.
	Tools bool `yaml:"tools"`
	// It takes audio.
	Audio bool `yaml:"audio"`
	// It reasons. Default: not shown, but money is held as if it did (see hold).
	Reasoning *bool `yaml:"reasoning"`
	// Values that clients may choose; needs reasoning. Default: clients cannot choose.
	ReasoningEffort []string `yaml:"reasoning_effort" oneof:"@efforts" unique:"value"`
	// One value of reasoning_effort. Default: the upstream's.
	DefaultEffort string `yaml:"default_reasoning_effort"`
	// It follows a JSON schema.
	ResponseSchema bool `yaml:"response_schema"`
	// It takes images.
	Vision bool `yaml:"vision"`
	// Images of a request; needs vision. Default 1.
	MaxImages int `yaml:"max_images" range:"0..1000"`
	// It takes videos.
	Video bool `yaml:"video"`
	// It takes file parts (PDF and others).
	Files bool `yaml:"files"`
	// Videos of a request; needs video.
	MaxVideos int `yaml:"max_videos" default:"0" range:"0..1000"`
	// It returns log probabilities.
	LogProbs bool `yaml:"logprobs"`
	// Chats may search and read pages: enable_web_search, enable_web_scraping and the tool web_search. Needs
	// augment.search.
	WebSearch bool `yaml:"web_search"`
	// Chats may search X: enable_x_search and the tool x_search, which the upstream gets. Only dialect openai has it.
	XSearch bool `yaml:"x_search"`
}

// Constraints of a text model are its default sampling values, decimal text
// kept as written; empty leaves a field out of the record.
type Constraints struct {
	// Temperature.
	Temperature *Decimal `yaml:"temperature" range:"0..2"`
	// Nucleus sampling.
	TopP *Decimal `yaml:"top_p" range:"0..1"`
	// Penalty for frequent tokens.
	FrequencyPenalty *Decimal `yaml:"frequency_penalty" range:"-2..2"`
	// Penalty for tokens that are present.
	PresencePenalty *Decimal `yaml:"presence_penalty" range:"-2..2"`
	// Penalty for repeated tokens.
	RepetitionPenalty *Decimal `yaml:"repetition_penalty" range:"0..10"`
}

// Reasons says whether the model reasons.
func (c *Capabilities) Reasons() bool { return c.Reasoning != nil && *c.Reasoning }

const (
	defaultContextCompletion = 16384 // max_completion_tokens, when the context is larger
)

// ReasoningEfforts are the values of reasoning_effort, least first.
var ReasoningEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func newChat() Spec { return filledSpec(&Chat{}) }

// Text is true: the model reads and writes.
func (c *Chat) Text() bool { return true }

// Free says that `price: free` is written.
func (c *Chat) Free() bool { return c.Price != nil && c.Price.Free }

func (c *Chat) dearer(than Spec) bool { return dearer(c.Price, than.(*Chat).Price) }

func (c *Chat) complete(m *Model) {
	if c.MaxCompletionTokens == 0 {
		c.MaxCompletionTokens = min(c.ContextTokens, defaultContextCompletion)
	}
	if m.Hold == "" {
		m.Hold = "full"
		if denied := c.Capabilities.Reasoning; denied != nil && !*denied {
			m.Hold = "slice"
		}
	}
	if can := &c.Capabilities; can.Vision && can.MaxImages == 0 {
		can.MaxImages = 1
	}
}

func (c *Chat) check(v *validator, path string, m *Model) {
	c.checkTokens(v, path, m)
	v.capabilities(path+".capabilities", &c.Capabilities)
	if c.Capabilities.WebSearch && v.c.Augment.Search == nil {
		v.wrong(path+".capabilities.web_search", "no search upstream is configured; expected augment.search:")
	}
	v.tokenPrice(path+".price", c.Price, true, c.ContextTokens)
	v.enclave(path+".tee", m, c.Enclave)
}

func (c *Chat) checkTokens(v *validator, path string, m *Model) {
	context := path + ".context_tokens"
	if !v.has(context) {
		v.wrong(context, "a text model needs the size of its context; expected context_tokens: from 1 to %d",
			maxTokenSpan)
		return
	}
	v.oneOf(path+".hold", m.Hold, "full", "slice")
	if m.Hold == "slice" && c.Capabilities.Reasons() {
		v.wrong(path+".hold", "a model that reasons produces unseen tokens, "+
			"and slice does not hold money for them; expected full")
	}
	most := path + ".max_completion_tokens"
	if v.has(most) && !v.bad[context] && (c.MaxCompletionTokens < 1 || c.MaxCompletionTokens > c.ContextTokens) {
		v.wrong(most, "%s is out of range; expected 1 to context_tokens (%d)", v.shown(most), c.ContextTokens)
	}
}

func (v *validator) capabilities(path string, c *Capabilities) {
	efforts := path + ".reasoning_effort"
	if len(c.ReasoningEffort) > 0 && !c.Reasons() {
		v.wrong(efforts, "efforts are listed for a model that does not reason; expected reasoning: true too")
	}
	at := path + ".default_reasoning_effort"
	switch {
	case c.DefaultEffort == "":
	case len(c.ReasoningEffort) == 0:
		v.wrong(at, "a default needs reasoning_effort; expected the list of possible values too")
	case !slices.Contains(c.ReasoningEffort, c.DefaultEffort):
		v.wrong(at, "%s is not in reasoning_effort; expected %s", v.shown(at), choice(c.ReasoningEffort))
	}
	v.counted(path+".max_images", c.MaxImages, "vision", c.Vision)
	v.counted(path+".max_videos", c.MaxVideos, "video", c.Video)
}

// counted checks a number of attachments that needs its capability.
func (v *validator) counted(path string, n int, capability string, on bool) {
	if v.has(path) && n > 0 && !on {
		v.wrong(path, "the model accepts none without %s; expected %s: true too", capability, capability)
	}
}

// nanos is the number in 1e-9; math.MaxInt64 if the text is not a number.
func (d Decimal) nanos() int64 {
	text, negative := strings.CutPrefix(string(d), "-")
	n, err := parseDecimal(text, nanoDigits)
	switch {
	case err != nil:
		return math.MaxInt64
	case negative:
		return -n
	}
	return n
}

// checkTarget checks the options of the dialect, such as how a model is asked to
// think.
func (c *Chat) checkTarget(v *validator, path string, m *Model, t *Target, u *Upstream) {
	v.writes(path, t, u)
	v.cloudName(path, t, u, m.ID)
	v.enclaveTarget(path+".upstream", c.Enclave, u)
	d, _ := u.speaks()
	if strings.HasSuffix(d.name, "anthropic") {
		for key, on := range map[string]bool{"audio": c.Capabilities.Audio, "video": c.Capabilities.Video,
			"logprobs": c.Capabilities.LogProbs} {
			if on {
				v.doubt(path[:strings.LastIndex(path, ".targets")]+".capabilities."+key,
					"an upstream of dialect %s has no %s, and such requests get 400 there; expected %s: false", u.Dialect, key, key)
			}
		}
	}
	if c.Capabilities.XSearch && u.Dialect != "openai" {
		v.wrong(path+".upstream", "the dialect of %s has no search of X; expected x_search: false, or an upstream of "+
			"dialect openai", v.shown(path+".upstream"))
	}
	if len(d.options) == 0 {
		v.noOptions(path, m, t)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(t.Options)) {
		at := join(path+".options", key)
		values, ok := d.options[key]
		if !ok {
			v.wrongKey(at, "there is no option %s for a model of type text; expected %s",
				quote(key), choice(slices.Sorted(maps.Keys(d.options))))
			continue
		}
		v.oneOf(at, t.Options[key], values...)
	}
}

func (v *validator) noOptions(path string, m *Model, t *Target) {
	if len(t.Options) > 0 {
		v.wrong(path+".options", "options have no meaning for a model of type %s; expected them to be left out", m.Type)
	}
}
