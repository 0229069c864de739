package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Model is one catalog record with its price and where it is served.
type Model struct {
	ID          string `yaml:"id"`
	Type        string `yaml:"type"` // text (default), embedding, or one of ImageTypes
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Source      string `yaml:"source"`  // modelSource
	Privacy     string `yaml:"privacy"` // private (default), anonymized
	Created     int64  `yaml:"created"` // Unix seconds
	Beta        bool   `yaml:"beta"`
	Uncensored  bool   `yaml:"uncensored"`
	Offline     bool   `yaml:"offline"`
	Tier        string `yaml:"tier"`      // limits tier; default M for text, embedding for embeddings, image for images
	Tokenizer   string `yaml:"tokenizer"` // o200k_base (default), cl100k_base

	ContextTokens       int64 `yaml:"context_tokens"`        // required for text
	MaxCompletionTokens int64 `yaml:"max_completion_tokens"` // default: min(context, 16384)
	EmbeddingDimensions int64 `yaml:"embedding_dimensions"`
	MaxInputTokens      int64 `yaml:"max_input_tokens"`
	CustomDimensions    bool  `yaml:"custom_dimensions"`

	Traits       []string     `yaml:"traits"`
	Aliases      []string     `yaml:"aliases"` // compatibility mapping: foreign names of this model
	Capabilities Capabilities `yaml:"capabilities"`
	// Hold is what is set aside before a text model is asked: full, the whole
	// completion cap (default), or slice, as much as is seen, step by step
	// (default where capabilities.reasoning is written as false). Only a model
	// that produces nothing unseen may have slice.
	Hold        string       `yaml:"hold"`
	Constraints Constraints  `yaml:"constraints"`
	Deprecation *Deprecation `yaml:"deprecation"`

	Price   *Price   `yaml:"price"` // required; `price: free` for free models
	Targets []Target `yaml:"targets"`
}

// Target is one upstream that serves a model.
type Target struct {
	Upstream string `yaml:"upstream"`
	Model    string `yaml:"model"`    // the upstream's name of the model; default: the model id
	Weight   int    `yaml:"weight"`   // share among equal priorities; default 1, 1 to 1000
	Priority int    `yaml:"priority"` // lower first; default 0
	// Options are settings of the upstream's dialect for models of pictures,
	// such as sizes: 1024x1024; each dialect lists its own. For a text model of
	// dialect anthropic, thinking says how it is asked to think: adaptive, budget
	// or none; default: by the generation that its name there tells.
	Options map[string]string `yaml:"options"`
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
	// WebSearch (image models): the upstream searches the web for the picture.
	WebSearch bool `yaml:"web_search"`
	// OptimizePromptThinking (image and inpaint models): clients may have
	// prompts rewritten without reasoning (supportsOptimizePromptThinking).
	OptimizePromptThinking bool `yaml:"optimize_prompt_thinking"`
}

// Constraints of a text model are its default sampling values, decimal text
// kept as written; empty leaves a field out of the record. Those of image
// models are in ImageConstraints.
type Constraints struct {
	ImageConstraints `yaml:",inline"`

	Temperature       *Decimal `yaml:"temperature"`
	TopP              *Decimal `yaml:"top_p"`
	FrequencyPenalty  *Decimal `yaml:"frequency_penalty"`
	PresencePenalty   *Decimal `yaml:"presence_penalty"`
	RepetitionPenalty *Decimal `yaml:"repetition_penalty"`
}

// Reasons says whether the model reasons.
func (c *Capabilities) Reasons() bool { return c.Reasoning != nil && *c.Reasoning }

// HoldsFull says that the whole completion cap is held before the model is asked.
func (m *Model) HoldsFull() bool { return m.Hold != "slice" }

// Deprecation as in addendum 7.3 and 20. Dates are RFC 3339 or YYYY-MM-DD.
type Deprecation struct {
	StartsAt    time.Time `yaml:"starts_at"`
	Date        time.Time `yaml:"date"`
	RemovesAt   time.Time `yaml:"removes_at"`
	Replacement string    `yaml:"replacement"`
	AutoRemap   bool      `yaml:"auto_remap"`
}

// Price of a text or embedding model in USD per 1,000,000 tokens as written,
// held as Pico (1e-12 USD) per token. A missing cache price is the input price.
// Models of pictures have an ImagePrice instead.
type Price struct {
	ImagePrice `yaml:",inline"`

	Free       bool           `yaml:"-"`
	Input      Pico           `yaml:"input"`
	Output     Pico           `yaml:"output"`
	CacheRead  *Pico          `yaml:"cache_read"`
	CacheWrite *Pico          `yaml:"cache_write"`
	Extended   *ExtendedPrice `yaml:"extended"`
}

// ExtendedPrice replaces the prices of the whole request when its prompt has
// more than Above tokens (addendum 19.2).
type ExtendedPrice struct {
	Above      int64 `yaml:"above"`
	Input      Pico  `yaml:"input"`
	Output     Pico  `yaml:"output"`
	CacheRead  *Pico `yaml:"cache_read"`
	CacheWrite *Pico `yaml:"cache_write"`
}

const (
	maxModels    = 10_000
	maxNames     = 100 // aliases or traits of a model
	maxTargets   = 64  // of a model
	maxTokenSpan = 100_000_000
	maxPrice     = Pico(100_000 * 1_000_000) // 100,000 USD per 1,000,000 tokens: above is a slipped decimal point
)

// ReasoningEfforts are the values of reasoning_effort, least first.
var ReasoningEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

var (
	quantizations = []string{"fp4", "fp8", "fp16", "bf16", "int8", "int4", "not-available"}
	laterTypes    = []string{"asr", "music", "tts", "video"}
	servedTypes   = append([]string{"text", "embedding"}, ImageTypes...)

	// A colon starts a feature suffix only before key=, so ids may have one.
	modelID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
	traitName = regexp.MustCompile(`^[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*$`)
)

const modelIDExpected = "expected 1 to 128 letters, digits and . _ - : / @ +, the first a letter or digit, such as my-model-7b"

func (v *validator) models() {
	switch n := len(v.c.Models); {
	case n == 0 && len(v.c.RPC.Networks) > 0:
	case n == 0:
		v.wrong("models", "no model is configured; expected a list with id, price and targets of each")
	case n > maxModels:
		v.wrong("models", "%d models are listed; expected at most %d", n, maxModels)
		return
	}
	v.names()
	upstreams := map[string]*Upstream{}
	for i := range v.c.Upstreams {
		upstreams[v.c.Upstreams[i].Name] = &v.c.Upstreams[i]
	}
	for i := range v.c.Models {
		m := &v.c.Models[i]
		path := fmt.Sprintf("models[%d]", i)
		if !v.kind(path, m) {
			continue
		}
		v.record(path, m)
		v.capabilities(path+".capabilities", &m.Capabilities)
		if m.IsImage() {
			v.imageConstraints(path+".constraints", m)
		} else {
			v.constraints(path+".constraints", &m.Constraints)
		}
		v.price(path+".price", m)
		v.targets(path, m, upstreams)
		v.deprecation(path+".deprecation", m)
	}
}

// names checks that everything a client may write as `model` means one model:
// ids and aliases over all types, traits within a type.
func (v *validator) names() {
	taken := map[string]string{} // name -> where it is defined
	claim := func(path, name, what string) {
		if first, ok := taken[name]; ok {
			v.wrong(path, "%s is %s already; expected a name that no model id, alias or trait has", quote(name), first)
			return
		}
		taken[name] = what
	}
	for i := range v.c.Models {
		path, id := fmt.Sprintf("models[%d].id", i), v.c.Models[i].ID
		switch {
		case id == "":
			v.wrong(path, "the model has no id; "+modelIDExpected)
		case !modelID.MatchString(id):
			v.wrong(path, "%s cannot be a model id; "+modelIDExpected, v.shown(path))
		default:
			claim(path, id, fmt.Sprintf("the id of models[%d]", i))
			if _, ok := v.ids[id]; !ok {
				v.ids[id] = i
			}
		}
	}
	for i := range v.c.Models {
		path := fmt.Sprintf("models[%d].aliases", i)
		if n := len(v.c.Models[i].Aliases); n > maxNames {
			v.wrong(path, "%d aliases are listed; expected at most %d", n, maxNames)
			continue
		}
		for j, alias := range v.c.Models[i].Aliases {
			at := fmt.Sprintf("%s[%d]", path, j)
			if !modelID.MatchString(alias) {
				v.wrong(at, "%s cannot be an alias; "+modelIDExpected, v.shown(at))
				continue
			}
			claim(at, alias, fmt.Sprintf("an alias of models[%d]", i))
		}
	}
	v.traits(taken)
}

func (v *validator) traits(taken map[string]string) {
	held := map[string]int{} // type and trait -> model
	for i := range v.c.Models {
		m := &v.c.Models[i]
		path := fmt.Sprintf("models[%d].traits", i)
		if n := len(m.Traits); n > maxNames {
			v.wrong(path, "%d traits are listed; expected at most %d", n, maxNames)
			continue
		}
		for j, trait := range m.Traits {
			at := fmt.Sprintf("%s[%d]", path, j)
			key := m.Type + " " + trait
			switch first, ok := held[key]; {
			case len(trait) > 64 || !traitName.MatchString(trait):
				v.wrong(at, "%s cannot be a trait; expected lower-case words joined by _ or -, such as default_code", v.shown(at))
			case taken[trait] != "":
				v.wrong(at, "%s is %s already; expected a name that no model id, alias or trait has", quote(trait), taken[trait])
			case ok:
				v.wrong(at, "%s belongs to models[%d] already; expected one model for a trait among the %s models", quote(trait), first, m.Type)
			default:
				held[key] = i
			}
		}
	}
}

// kind checks the type and the keys that only one type has.
func (v *validator) kind(path string, m *Model) bool {
	if slices.Contains(laterTypes, m.Type) {
		v.wrong(path+".type", "models of type %s are not served by this version; expected %s", m.Type, choice(servedTypes))
		return false
	}
	if !slices.Contains(servedTypes, m.Type) {
		v.oneOf(path+".type", m.Type, servedTypes...)
		return false
	}
	foreign := []string{"embedding_dimensions", "max_input_tokens", "custom_dimensions"}
	switch {
	case m.Type == "embedding":
		foreign = []string{"context_tokens", "max_completion_tokens", "capabilities", "constraints"}
	case m.IsImage():
		foreign = append(foreign, "context_tokens", "max_completion_tokens", "tokenizer")
	}
	for _, key := range foreign {
		if v.has(path + "." + key) {
			v.wrong(path+"."+key, "%s has no meaning for a model of type %s; expected it to be left out", key, m.Type)
		}
	}
	v.ownKeys(path, m)
	return true
}

func (v *validator) record(path string, m *Model) {
	for key, text := range map[string]string{"name": m.Name, "description": m.Description, "source": m.Source} {
		if len(text) > 4096 {
			v.wrong(path+"."+key, "the text has %d bytes; expected at most 4096", len(text))
		}
	}
	v.oneOf(path+".privacy", m.Privacy, "private", "anonymized")
	v.oneOf(path+".tokenizer", m.Tokenizer, "o200k_base", "cl100k_base")
	whole(v, path+".created", m.Created, 0, 253_402_300_799) // the year 9999; milliseconds are above
	if _, ok := v.c.Limits.Tiers[m.Tier]; !ok {
		v.wrong(path+".tier", "there is no tier %s; expected %s, or define it below limits.tiers", quote(m.Tier), choice(v.c.TierNames()))
	}
	if m.Type == "embedding" {
		whole(v, path+".embedding_dimensions", m.EmbeddingDimensions, 0, 1_000_000)
		whole(v, path+".max_input_tokens", m.MaxInputTokens, 0, maxTokenSpan)
		return
	}
	if m.IsImage() {
		return
	}
	context := path + ".context_tokens"
	if !v.has(context) {
		v.wrong(context, "a text model needs the size of its context; expected context_tokens: from 1 to %d", maxTokenSpan)
		return
	}
	whole(v, context, m.ContextTokens, 1, maxTokenSpan)
	v.oneOf(path+".hold", m.Hold, "full", "slice")
	if m.Hold == "slice" && m.Capabilities.Reasons() {
		v.wrong(path+".hold", "a model that reasons produces tokens that nobody sees, and slice would not hold money for them; expected full")
	}
	if completion := path + ".max_completion_tokens"; v.has(completion) && (m.MaxCompletionTokens < 1 || m.MaxCompletionTokens > m.ContextTokens) {
		v.wrong(completion, "%s is out of range; expected 1 to context_tokens (%d)", v.shown(completion), m.ContextTokens)
	}
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

func (v *validator) price(path string, m *Model) {
	p := m.Price
	if p == nil && m.IsImage() {
		v.wrong(path, "a model without a price is not offered; expected what a picture costs in USD, such as generation: 0.04, or price: free if it is free")
		return
	}
	if p == nil {
		v.wrong(path, "a model without a price is not offered; expected input: and output: in USD per 1,000,000 tokens, or price: free if it is free")
		return
	}
	if p.Free {
		return
	}
	if m.IsImage() {
		v.imagePrice(path, m)
		return
	}
	output := m.Type == "text" // embeddings have none
	v.rates(path, output, p.Input, p.Output, p.CacheRead, p.CacheWrite)
	if v.has(path+".input") && p.Input == 0 && p.Output == 0 && !v.bad[path+".input"] && !v.bad[path+".output"] {
		v.wrong(path, "every price is 0; expected price: free if the model is free")
	}
	e := p.Extended
	if e == nil {
		return
	}
	above := path + ".extended.above"
	if !v.has(above) {
		v.wrong(above, "the prices for long prompts need the number of prompt tokens they begin above; expected above: from 1 to %d", maxTokenSpan)
	} else {
		whole(v, above, e.Above, 1, maxTokenSpan)
	}
	if m.Type == "text" && m.ContextTokens > 0 && e.Above >= m.ContextTokens && e.Above <= maxTokenSpan {
		v.wrong(above, "%s is not below context_tokens (%d), so that no prompt could reach it; expected less", v.shown(above), m.ContextTokens)
	}
	v.rates(path+".extended", output, e.Input, e.Output, e.CacheRead, e.CacheWrite)
}

func (v *validator) rates(path string, output bool, in, out Pico, read, write *Pico) {
	if !v.has(path + ".input") {
		v.wrong(path+".input", "the price of input tokens is missing; expected input: in USD per 1,000,000 tokens")
	}
	if output && !v.has(path+".output") {
		v.wrong(path+".output", "the price of output tokens is missing; expected output: in USD per 1,000,000 tokens")
	}
	if output && v.has(path+".output") && out == 0 && in > 0 && v.at[path+".output"].node.text != freeRate {
		v.wrong(path+".output", "output tokens would be given away while input tokens cost %s USD per 1,000,000; expected their price, or output: free if that is meant", in.PerMillion())
	}
	for key, p := range map[string]*Pico{"input": &in, "output": &out, "cache_read": read, "cache_write": write} {
		if p != nil && *p > maxPrice {
			v.wrong(path+"."+key, "%s is out of range; expected 0 to %s USD per 1,000,000 tokens", v.shown(path+"."+key), maxPrice.PerMillion())
		}
	}
}

// pictureDialects are those of upstreams that make nothing but pictures.
var pictureDialects = []string{"native", "sdapi", "stability", "fal"}

func (v *validator) targets(path string, m *Model, upstreams map[string]*Upstream) {
	list := path + ".targets"
	if n := len(m.Targets); n == 0 || n > maxTargets {
		v.wrong(list, "the model has %d targets; expected 1 to %d, each with upstream: and, if it is called otherwise there, model:", n, maxTargets)
		return
	}
	seen := map[[2]string]int{}
	for i, t := range m.Targets {
		at := fmt.Sprintf("%s[%d]", list, i)
		whole(v, at+".weight", t.Weight, 1, 1000)
		whole(v, at+".priority", t.Priority, 0, 1000)
		if len(t.Model) > 256 || strings.ContainsFunc(t.Model, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			v.wrong(at+".model", "this cannot be sent as a model name; expected at most 256 bytes of text on one line")
		}
		if t.Upstream == "" {
			v.wrong(at+".upstream", "the target names no upstream; expected the name of one")
			continue
		}
		u, ok := upstreams[t.Upstream]
		if !ok {
			v.missingUpstream(at+".upstream", t.Upstream)
			continue
		}
		if m.IsImage() && u.Dialect == "anthropic" {
			v.wrong(at+".upstream", "upstream %s speaks anthropic, which makes no pictures; expected an upstream of a dialect that does", quote(t.Upstream))
		}
		if !m.IsImage() && slices.Contains(pictureDialects, u.Dialect) {
			v.wrong(at+".upstream", "upstream %s speaks %s, which makes pictures only; expected an upstream of dialect openai or anthropic", quote(t.Upstream), u.Dialect)
		}
		if m.Type == "embedding" && u.Dialect == "anthropic" {
			v.wrong(at+".upstream", "upstream %s speaks anthropic, which has no embeddings; expected an upstream of dialect openai", quote(t.Upstream))
		}
		if m.IsImage() {
			v.options(at+".options", t.Options)
		} else {
			v.textOptions(at+".options", m, u, t.Options)
		}
		key := [2]string{t.Upstream, t.Model}
		if first, ok := seen[key]; ok {
			v.wrong(at, "this is targets[%d] again; expected every target once: use weight: for its share", first)
		}
		seen[key] = i
	}
}

// textOptions checks the options of a target that writes: how a model behind
// the anthropic dialect is asked to think.
func (v *validator) textOptions(path string, m *Model, u *Upstream, options map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(options)) {
		at := join(path, key)
		switch {
		case m.Type != "text" || u.Dialect != "anthropic":
			v.wrong(path, "options have no meaning for a model of type %s; expected them to be left out", m.Type)
			return
		case key != "thinking":
			v.wrongKey(at, "there is no option %s for a model of type text; expected thinking", quote(key))
		default:
			v.oneOf(at, options[key], "adaptive", "budget", "none")
		}
	}
}

// missingUpstream is silent while the upstreams themselves could not be read.
func (v *validator) missingUpstream(path, name string) {
	if v.bad["upstreams"] {
		return
	}
	var names []string
	for i, u := range v.c.Upstreams {
		if at := fmt.Sprintf("upstreams[%d]", i); v.bad[at] || v.bad[at+".name"] {
			return
		}
		names = append(names, u.Name)
	}
	expected := "expected the name of an upstream"
	if near := suggest(name, names); near != "" {
		expected = "did you mean " + near + "?"
	} else if len(names) > 0 && len(names) <= 8 {
		expected = "expected " + choice(names)
	}
	v.wrong(path, "there is no upstream %s; %s", quote(name), expected)
}

func (v *validator) deprecation(path string, m *Model) {
	d := m.Deprecation
	if d == nil {
		return
	}
	if d.Date.IsZero() {
		v.wrong(path+".date", "the date of deprecation is missing; expected date: YYYY-MM-DD")
	}
	if d.RemovesAt.IsZero() {
		v.wrong(path+".removes_at", "the date of removal is missing; expected removes_at: YYYY-MM-DD")
	}
	if !d.StartsAt.IsZero() && !d.Date.IsZero() && d.StartsAt.After(d.Date) {
		v.wrong(path+".starts_at", "%s is after date; expected starts_at <= date <= removes_at", v.shown(path+".starts_at"))
	}
	if !d.Date.IsZero() && !d.RemovesAt.IsZero() && d.Date.After(d.RemovesAt) {
		v.wrong(path+".removes_at", "%s is before date; expected starts_at <= date <= removes_at", v.shown(path+".removes_at"))
	}
	v.replacement(path+".replacement", m)
}

// replacement checks where calls of a removed model go: to a model that is
// there to stay and never costs a client more (addendum 20).
func (v *validator) replacement(path string, m *Model) {
	d := m.Deprecation
	if d.Replacement == "" {
		if d.AutoRemap {
			v.wrong(path, "auto_remap has no model to send calls to; expected replacement: with the id of a model")
		}
		return
	}
	i, ok := v.ids[d.Replacement]
	switch {
	case d.Replacement == m.ID:
		v.wrong(path, "the model would replace itself; expected the id of another model")
	case !ok:
		v.wrong(path, "there is no model %s; expected the id of a model of this file", quote(d.Replacement))
	case !d.AutoRemap:
	case v.c.Models[i].Type != m.Type:
		v.wrong(path, "%s is of type %s; expected a model of type %s", quote(d.Replacement), v.c.Models[i].Type, m.Type)
	case v.c.Models[i].Deprecation != nil:
		v.wrong(path, "%s is deprecated itself; expected a model that stays", quote(d.Replacement))
	case costsMore(&v.c.Models[i], m):
		v.wrong(path, "%s costs more, which clients who did not choose it would pay; expected a model of the same or a lower price", quote(d.Replacement))
	}
}

// costsMore says whether clients of b could pay more with a.
func costsMore(a, b *Model) bool {
	if a.Price == nil || b.Price == nil || a.Price.Free {
		return false
	}
	if a.IsImage() {
		return b.Price.Free || dearerImage(a, b)
	}
	return dearer(a.Price, b.Price)
}

// dearer says whether any token of a costs more than with b.
func dearer(a, b *Price) bool {
	if a == nil || b == nil || a.Free {
		return false
	}
	cache := func(p *Price, own *Pico) Pico {
		if own != nil {
			return *own
		}
		return p.Input
	}
	if a.Input > b.Input || a.Output > b.Output ||
		cache(a, a.CacheRead) > cache(b, b.CacheRead) || cache(a, a.CacheWrite) > cache(b, b.CacheWrite) {
		return true
	}
	return a.Extended != nil && dearer(a.Extended.price(), b.long()) || a.Extended == nil && b.Extended != nil && dearer(a, b.long())
}

// price is the extended tier as a price of its own.
func (e *ExtendedPrice) price() *Price {
	return &Price{Input: e.Input, Output: e.Output, CacheRead: e.CacheRead, CacheWrite: e.CacheWrite}
}

// long is what long prompts cost: the extended tier, or the usual price.
func (p *Price) long() *Price {
	if p.Extended == nil {
		return &Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	return p.Extended.price()
}
