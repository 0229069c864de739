package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Chat is the Spec of a model that writes (type text).
type Chat struct {
	Tokenizer           string       `yaml:"tokenizer"`             // o200k_base (default), cl100k_base
	ContextTokens       int64        `yaml:"context_tokens"`        // required
	MaxCompletionTokens int64        `yaml:"max_completion_tokens"` // default: min(context, 16384)
	Capabilities        Capabilities `yaml:"capabilities"`
	Constraints         Constraints  `yaml:"constraints"`
	Price               *Price       `yaml:"price"` // required; `price: free` for free models
	// Enclave says that it runs in one (tee.go); nil: it does not.
	Enclave *Enclave `yaml:"tee"`
}

// Capabilities as in addendum 7.4 (text).
type Capabilities struct {
	Code            bool     `yaml:"code"`             // optimizedForCode
	Quantization    string   `yaml:"quantization"`     // default not-available
	Tools           bool     `yaml:"tools"`            // supportsFunctionCalling
	Audio           bool     `yaml:"audio"`            // supportsAudioInput
	Reasoning       *bool    `yaml:"reasoning"`        // not written: false, but see Model.Hold
	ReasoningEffort []string `yaml:"reasoning_effort"` // reasoningEffortOptions; empty: supportsReasoningEffort false
	DefaultEffort   string   `yaml:"default_reasoning_effort"`
	ResponseSchema  bool     `yaml:"response_schema"`
	Vision          bool     `yaml:"vision"`
	MaxImages       int      `yaml:"max_images"` // default 1 with vision; >1 means supportsMultipleImages
	Video           bool     `yaml:"video"`
	Files           bool     `yaml:"files"` // takes file parts (PDF and others) as they are
	MaxVideos       int      `yaml:"max_videos"`
	LogProbs        bool     `yaml:"logprobs"`
	WebSearch       bool     `yaml:"web_search"` // supportsWebSearch: chats may search and read pages (augment)
	XSearch         bool     `yaml:"x_search"`   // supportsXSearch: the upstream searches X when it gets that tool
}

// Constraints of a text model are its default sampling values, decimal text
// kept as written; empty leaves a field out of the record.
type Constraints struct {
	Temperature       *Decimal `yaml:"temperature"`
	TopP              *Decimal `yaml:"top_p"`
	FrequencyPenalty  *Decimal `yaml:"frequency_penalty"`
	PresencePenalty   *Decimal `yaml:"presence_penalty"`
	RepetitionPenalty *Decimal `yaml:"repetition_penalty"`
}

// Reasons says whether the model reasons.
func (c *Capabilities) Reasons() bool { return c.Reasoning != nil && *c.Reasoning }

const (
	defaultTokenizer         = "o200k_base"
	defaultContextCompletion = 16384 // max_completion_tokens, when the context is larger
)

// ReasoningEfforts are the values of reasoning_effort, least first.
var ReasoningEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

var quantizations = []string{"fp4", "fp8", "fp16", "bf16", "int8", "int4", "not-available"}

func newChat() Spec {
	return &Chat{Tokenizer: defaultTokenizer, Capabilities: Capabilities{Quantization: "not-available"}}
}

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
	v.tokenizer(path, c.Tokenizer)
	c.checkTokens(v, path, m)
	v.capabilities(path+".capabilities", &c.Capabilities)
	if c.Capabilities.WebSearch && v.c.Augment.Search == nil {
		v.wrong(path+".capabilities.web_search", "nothing answers searches; expected augment.search: with who does")
	}
	v.constraints(path+".constraints", &c.Constraints)
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
	whole(v, context, c.ContextTokens, 1, maxTokenSpan)
	v.oneOf(path+".hold", m.Hold, "full", "slice")
	if m.Hold == "slice" && c.Capabilities.Reasons() {
		v.wrong(path+".hold", "a model that reasons produces tokens that nobody sees, "+
			"and slice would not hold money for them; expected full")
	}
	most := path + ".max_completion_tokens"
	if v.has(most) && (c.MaxCompletionTokens < 1 || c.MaxCompletionTokens > c.ContextTokens) {
		v.wrong(most, "%s is out of range; expected 1 to context_tokens (%d)", v.shown(most), c.ContextTokens)
	}
}

func (v *validator) tokenizer(path, name string) {
	v.oneOf(path+".tokenizer", name, defaultTokenizer, "cl100k_base")
}

func (v *validator) capabilities(path string, c *Capabilities) {
	v.oneOf(path+".quantization", c.Quantization, quantizations...)
	efforts := path + ".reasoning_effort"
	for i, e := range c.ReasoningEffort {
		at := fmt.Sprintf("%s[%d]", efforts, i)
		v.oneOf(at, e, ReasoningEfforts...)
		if slices.Contains(c.ReasoningEffort[:i], e) {
			v.wrong(at, "%s is listed already; expected every value once", quote(e))
		}
	}
	if len(c.ReasoningEffort) > 0 && !c.Reasons() {
		v.wrong(efforts, "efforts are listed for a model that does not reason; expected reasoning: true beside them")
	}
	at := path + ".default_reasoning_effort"
	switch {
	case c.DefaultEffort == "":
	case len(c.ReasoningEffort) == 0:
		v.wrong(at, "a default stands without reasoning_effort; expected the list of possible values beside it")
	case !slices.Contains(c.ReasoningEffort, c.DefaultEffort):
		v.wrong(at, "%s is not in reasoning_effort; expected %s", v.shown(at), choice(c.ReasoningEffort))
	}
	v.counted(path+".max_images", c.MaxImages, "vision", c.Vision)
	v.counted(path+".max_videos", c.MaxVideos, "video", c.Video)
}

// counted checks a number of attachments that needs its capability.
func (v *validator) counted(path string, n int, capability string, on bool) {
	if !v.has(path) {
		return
	}
	whole(v, path, n, 0, 1000)
	if n > 0 && !on {
		v.wrong(path, "the model takes none without %s; expected %s: true beside it", capability, capability)
	}
}

func (v *validator) constraints(path string, c *Constraints) {
	v.decimal(path+".temperature", c.Temperature, 0, 2)
	v.decimal(path+".top_p", c.TopP, 0, 1)
	v.decimal(path+".frequency_penalty", c.FrequencyPenalty, -2, 2)
	v.decimal(path+".presence_penalty", c.PresencePenalty, -2, 2)
	v.decimal(path+".repetition_penalty", c.RepetitionPenalty, 0, 10)
}

func (v *validator) decimal(path string, d *Decimal, least, most int64) {
	if d == nil || *d == "" {
		return
	}
	text, negative := strings.CutPrefix(string(*d), "-")
	scaled, err := parseDecimal(text, nanoDigits)
	if negative {
		scaled = -scaled
	}
	if err != nil || scaled < least*1e9 || scaled > most*1e9 {
		v.wrong(path, "%s is out of range; expected %d to %d", v.shown(path), least, most)
	}
}

// checkTarget checks the options of the dialect, such as how a model is asked to
// think.
func (c *Chat) checkTarget(v *validator, path string, m *Model, t *Target, u *Upstream) {
	v.writes(path, t, u)
	v.cloudName(path, t, u, m.ID)
	v.enclaveTarget(path+".upstream", c.Enclave, u)
	d, _ := u.speaks()
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
