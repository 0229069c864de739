package providers

import (
	"cmp"
	"maps"
	"strconv"
	"time"

	"farebox/config"
	"farebox/proxy/jsontext"
)

// capability is the catalog's work for one type of models.
type capability struct {
	// offer copies the Spec's values for requests; target reads a target's options. Either
	// may be missing.
	offer  func(m *Model)
	target func(t *Target, options map[string]string)
	// head and record write the members of this type alone. upscale is the price of the
	// model that enlarges images; nil if absent.
	head   func(w *writer, m *config.Model)
	record func(w *writer, m *config.Model, upscale *config.ImagePrice)
}

// capabilities are those of every type of models in the config.
var capabilities = func() map[string]capability {
	list := map[string]capability{"text": writing, "embedding": embedding}
	for _, k := range config.JobKinds {
		list[k.Name] = takesJobs(k)
	}
	maps.Copy(list, imageTypes)
	maps.Copy(list, soundTypes)
	return list
}()

var writing = capability{
	offer: func(m *Model) {
		m.Chat = m.Config.Spec.(*config.Chat)
		m.Tokenizer, m.Price, m.Room = m.Chat.Tokenizer, m.Chat.Price, m.Chat.ContextTokens
		m.PreferFast = m.Chat.PreferFast
	},
	target: func(t *Target, options map[string]string) { t.Thinking = options["thinking"] },
	head: func(w *writer, m *config.Model) {
		w.number("context_length", m.Spec.(*config.Chat).ContextTokens)
	},
	record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		c := m.Spec.(*config.Chat)
		w.number("availableContextTokens", c.ContextTokens)
		w.number("maxCompletionTokens", c.MaxCompletionTokens)
		w.number("defaultCompletionTokens", w.defaultCompletion)
		w.capabilities(c)
		w.constraints(&c.Constraints)
		w.pricing(c.Price)
	},
}

var embedding = capability{
	offer: func(m *Model) {
		e := m.Config.Spec.(*config.Embedding)
		m.Tokenizer, m.Price, m.Room = e.Tokenizer, e.Price, e.MaxInputTokens
		m.PreferFast = e.PreferFast
	},
	record: func(w *writer, m *config.Model, _ *config.ImagePrice) {
		e := m.Spec.(*config.Embedding)
		if e.Dimensions > 0 {
			w.number("embeddingDimensions", e.Dimensions)
		}
		if e.MaxInputTokens > 0 {
			w.number("maxInputTokens", e.MaxInputTokens)
		}
		w.flag("supportsCustomDimensions", e.CustomDimensions)
		w.pricing(e.Price)
	},
}

// appendRecord appends a model's catalog record (addendum 7.2 to 7.4), in the
// order of the published sample.
func appendRecord(b []byte, m *Model, brand string, upscale *config.ImagePrice) []byte {
	c, own := m.Config, capabilities[m.Config.Type]
	w := &writer{b: b, defaultCompletion: m.DefaultCompletion}
	w.open("")
	w.text("id", m.ID)
	w.text("object", "model")
	w.number("created", c.Created)
	w.text("owned_by", brand)
	w.text("type", c.Type)
	if own.head != nil {
		own.head(w, c)
	}
	w.open("model_spec")
	w.text("name", c.Name)
	w.text("description", c.Description)
	w.text("modelSource", c.Source)
	w.text("privacy", c.Privacy)
	w.flag("offline", c.Offline)
	// beta would close the model to all but beta users, and we cannot tell these apart.
	w.flag("beta", false)
	w.flag("betaModel", c.Beta)
	if c.Uncensored {
		w.flag("uncensored", true)
	}
	if len(c.Regions) > 0 {
		w.texts("regionRestrictions", c.Regions)
	}
	own.record(w, c, upscale)
	if c.Deprecation != nil {
		w.deprecation(c.Deprecation)
	}
	w.texts("traits", c.Traits)
	w.close()
	w.close()
	return w.b
}

func (w *writer) capabilities(chat *config.Chat) {
	c, enclave := &chat.Capabilities, chat.Enclave
	w.open("capabilities")
	w.flag("optimizedForCode", c.Code)
	w.text("quantization", c.Quantization)
	w.flag("supportsFunctionCalling", c.Tools)
	w.flag("supportsAudioInput", c.Audio)
	w.flag("supportsReasoning", c.Reasons())
	w.flag("supportsReasoningEffort", len(c.ReasoningEffort) > 0)
	w.flag("supportsResponseSchema", c.ResponseSchema)
	w.flag("supportsMultipleImages", c.Vision && c.MaxImages > 1)
	w.flag("supportsVision", c.Vision)
	w.flag("supportsVideoInput", c.Video)
	w.flag("supportsWebSearch", c.WebSearch)
	w.flag("supportsLogProbs", c.LogProbs)
	w.flag("supportsTeeAttestation", enclave != nil)
	w.flag("supportsE2EE", enclave != nil && *enclave.Encrypted)
	w.flag("supportsXSearch", c.XSearch)
	if c.Vision && c.MaxImages > 1 {
		w.number("maxImages", int64(c.MaxImages))
	}
	if c.Video && c.MaxVideos > 0 {
		w.number("maxVideos", int64(c.MaxVideos))
	}
	if len(c.ReasoningEffort) > 0 {
		w.texts("reasoningEffortOptions", c.ReasoningEffort)
	}
	if c.DefaultEffort != "" {
		w.text("defaultReasoningEffort", c.DefaultEffort)
	}
	w.close()
}

// The defaults of interface.md, Chat, for models without their own in the config.
var usualTemperature, usualTopP config.Decimal = "0.7", "1.0"

func (w *writer) constraints(c *config.Constraints) {
	if *c == (config.Constraints{}) {
		return
	}
	w.open("constraints")
	for _, v := range [...]struct {
		name  string
		value *config.Decimal
	}{
		{"temperature", cmp.Or(c.Temperature, &usualTemperature)},
		{"top_p", cmp.Or(c.TopP, &usualTopP)},
		{"frequency_penalty", c.FrequencyPenalty},
		{"presence_penalty", c.PresencePenalty},
		{"repetition_penalty", c.RepetitionPenalty},
	} {
		if v.value == nil || *v.value == "" {
			continue
		}
		w.open(v.name)
		w.raw("default", string(*v.value))
		w.close()
	}
	w.close()
}

// pricing writes USD per 1,000,000 tokens from the integers, exactly.
func (w *writer) pricing(p *config.Price) {
	w.open("pricing")
	w.price("input", p.Input)
	w.optional("cache_input", p.CacheRead)
	w.optional("cache_write", p.CacheWrite)
	w.price("output", p.Output)
	if e := p.Extended; e != nil {
		w.open("extended")
		w.number("context_token_threshold", e.Above)
		w.price("input", e.Input)
		w.price("output", e.Output)
		w.optional("cache_input", e.CacheRead)
		w.optional("cache_write", e.CacheWrite)
		w.close()
	}
	w.close()
}

func (w *writer) optional(name string, p *config.Pico) {
	if p != nil {
		w.price(name, *p)
	}
}

// price writes one leaf; a DIEM is worth a USD.
func (w *writer) price(name string, p config.Pico) {
	w.open(name)
	w.raw("usd", p.PerMillion())
	w.raw("diem", p.PerMillion())
	w.close()
}

const recordTime = "2006-01-02T15:04:05.000Z"

func (w *writer) deprecation(d *config.Deprecation) {
	w.open("deprecation")
	w.flag("autoRemap", d.AutoRemap)
	w.time("date", d.Date)
	w.time("startsAt", d.StartsAt)
	w.time("removesAt", d.RemovesAt)
	if d.Replacement != "" {
		w.text("replacementModelId", d.Replacement)
	}
	w.close()
}

// writer appends JSON members, with the commas between them.
type writer struct {
	b                 []byte
	defaultCompletion int64 // of the text model that is written
}

func (w *writer) key(name string) {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' {
		w.b = append(w.b, ',')
	}
	if name != "" {
		w.b = append(jsontext.AppendString(w.b, name), ':')
	}
}

func (w *writer) open(name string) {
	w.key(name)
	w.b = append(w.b, '{')
}

func (w *writer) close() { w.b = append(w.b, '}') }

func (w *writer) text(name, value string) {
	w.key(name)
	w.b = jsontext.AppendString(w.b, value)
}

func (w *writer) raw(name, value string) {
	w.key(name)
	w.b = append(w.b, value...)
}

func (w *writer) number(name string, n int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) flag(name string, on bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, on)
}

func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.text(name, t.UTC().Format(recordTime))
	}
}

func (w *writer) texts(name string, list []string) {
	w.key(name)
	w.b = append(w.b, '[')
	for i, s := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = jsontext.AppendString(w.b, s)
	}
	w.b = append(w.b, ']')
}
