package prices

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// List is the list of vendors' models. It does not change.
type List struct {
	Source string // the package or file that the list is from
	Date   string // YYYY-MM-DD; empty for a file
	Models []Model
}

// Model is one entry.
type Model struct {
	Vendor    string // name of a Vendor
	Name      string // as requests to the vendor name it
	Mode      string // chat, embedding, or a mode that farebox does not sell by tokens, such as image_generation
	Embedding bool
	Context   int64 // tokens; 0: not known
	Output    int64 // most completion tokens; 0: not known
	Price     Price
	Long      *Long

	Tools, Vision, Video, Audio, Files, Schema, Reasons bool
	Efforts                                             []string // of reasoning_effort, least first
	Ends                                                time.Time
	Successor                                           string
	// Unsold says why a gateway that charges for tokens cannot sell the model; empty: it can.
	Unsold string
	// Dearer names kinds of input that the vendor charges more for than for text. The model is not said to take them.
	Dearer []string
}

// Price is USD per token. CacheRead and CacheWrite are nil where they cost as much as input.
type Price struct{ Input, Output, CacheRead, CacheWrite *big.Rat }

// Long replaces the price of requests whose prompt has more tokens than Above.
type Long struct {
	Above int64
	Price
}

//go:embed list.json.gz
var packed []byte

// Builtin is the list in the binary.
var Builtin = sync.OnceValue(func() *List {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	l, err := Parse(data)
	if err != nil {
		panic(err)
	}
	return l
})

// Open reads the list of a file; an empty name stands for the one in the binary.
func Open(file string) (*List, error) {
	if file == "" {
		return Builtin(), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if s, err := f.Stat(); err != nil || !s.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("it is not a file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostBytes {
		return nil, fmt.Errorf("it has more than %d MB", mostBytes>>20)
	}
	l, err := Parse(data)
	if err == nil && l.Source == "" {
		l.Source = file
	}
	return l, err
}

// MostImages of a request are allowed for models of the list that see.
const MostImages = 20

const (
	mostBytes  = 32 << 20
	mostModels = 50_000
)

// Parse reads a list in the form of LiteLLM's model_prices_and_context_window.json.
func Parse(data []byte) (*List, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("it is not a JSON object of models: %w", err)
	}
	if len(entries) > mostModels {
		return nil, fmt.Errorf("it has more than %d models", mostModels)
	}
	l := &List{}
	for key, raw := range entries {
		e := entry{}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if err := d.Decode(&e.members); err != nil {
			return nil, fmt.Errorf("%q is not an object", key)
		}
		if key == "_" {
			l.Source, l.Date = e.text("source"), e.text("date")
			continue
		}
		m, ok := e.model(key)
		if e.err != nil {
			return nil, fmt.Errorf("%q: %w", key, e.err)
		}
		if ok {
			l.Models = append(l.Models, m)
		}
	}
	slices.SortFunc(l.Models, func(a, b Model) int {
		return cmp.Or(strings.Compare(a.Vendor, b.Vendor), strings.Compare(a.Name, b.Name))
	})
	l.Models = slices.CompactFunc(l.Models, func(a, b Model) bool { return a.Vendor == b.Vendor && a.Name == b.Name })
	return l, nil
}

// Of are the models of a vendor that write text or make embeddings, by name.
func (l *List) Of(vendor string) []Model {
	var list []Model
	for _, m := range l.Models {
		if m.Vendor == vendor && m.Context > 0 {
			list = append(list, m)
		}
	}
	return list
}

// Find is a model of a vendor by the vendor's name; nil if the list does not have it.
func (l *List) Find(vendor, name string) *Model {
	i, ok := slices.BinarySearchFunc(l.Models, name, func(m Model, name string) int {
		return cmp.Or(strings.Compare(m.Vendor, vendor), strings.Compare(m.Name, name))
	})
	if !ok {
		return nil
	}
	return &l.Models[i]
}

// entry is an entry of the file; err is the first mistake in it.
type entry struct {
	members map[string]any
	err     error
}

func (e *entry) text(key string) string {
	s, _ := e.members[key].(string)
	return s
}

func (e *entry) is(key string) bool {
	b, _ := e.members[key].(bool)
	return b
}

// cost is a price; nil without one, and for 0.
func (e *entry) cost(key string) *big.Rat { return e.rat(key, e.members[key]) }

func (e *entry) rat(key string, value any) *big.Rat {
	text := ""
	switch v := value.(type) {
	case nil:
		return nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	r, ok := ParseCost(text)
	if !ok {
		e.fail(key, "is not a price")
		return nil
	}
	if r.Sign() == 0 {
		return nil
	}
	return r
}

// ParseCost reads USD per token, such as 2.5e-07. A token costs at most 1 USD.
func ParseCost(text string) (*big.Rat, bool) {
	// An exponent of a billion would be computed.
	if !plainCost.MatchString(text) {
		return nil, false
	}
	r, ok := new(big.Rat).SetString(text)
	return r, ok && r.Cmp(dearest) <= 0
}

var (
	plainCost = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?$`)
	dearest   = big.NewRat(1, 1) // USD of a token
)

func (e *entry) fail(key, what string) {
	if e.err == nil {
		e.err = fmt.Errorf("%s %s", key, what)
	}
}

// count is a number of tokens; files have it as 128000, "128000" and 128000.0.
func (e *entry) count(keys ...string) int64 {
	for _, key := range keys {
		text := fmt.Sprint(e.members[key])
		text, _, _ = strings.Cut(text, ".")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n <= 100_000_000 {
			return n
		}
	}
	return 0
}

// vendorName folds providers that the list has several times for one vendor.
func vendorName(provider string) string {
	switch {
	case strings.HasPrefix(provider, "vertex_ai"):
		return "vertex_ai"
	case provider == "bedrock_converse":
		return "bedrock"
	}
	return provider
}

func (e *entry) model(key string) (Model, bool) {
	m := Model{Vendor: vendorName(e.text("litellm_provider")), Mode: e.text("mode")}
	if m.Vendor == "" || m.Mode == "" {
		return m, false
	}
	m.Name, m.Embedding = strings.TrimPrefix(key, m.Vendor+"/"), m.Mode == "embedding"
	if m.Mode != "chat" && !m.Embedding {
		m.Unsold = "it is of type " + strings.ReplaceAll(m.Mode, "_", " ")
		return m, true
	}
	m.Context, m.Output = e.count("max_input_tokens", "max_tokens"), e.count("max_output_tokens", "max_tokens")
	m.Output = min(m.Output, m.Context)
	m.Price = Price{e.cost("input_cost_per_token"), e.cost("output_cost_per_token"), e.cost("cache_read_input_token_cost"),
		e.cost("cache_creation_input_token_cost")}
	e.long(&m)
	e.can(&m)
	if text := e.text("deprecation_date"); text != "" {
		m.Ends, _ = time.Parse(time.DateOnly, text)
	}
	m.Successor = strings.TrimPrefix(e.text("successor_model"), m.Vendor+"/")
	e.sold(key, &m)
	return m, true
}

// can sets the model's features.
func (e *entry) can(m *Model) {
	m.Tools, m.Schema, m.Reasons = e.is("supports_function_calling"), e.is("supports_response_schema"), e.is("supports_reasoning")
	m.Vision = e.is("supports_vision") && !e.dearer(m, "image", "input_cost_per_image_token")
	m.Video = e.is("supports_video_input") && !e.dearer(m, "video", "input_cost_per_video_token")
	m.Audio = e.is("supports_audio_input") && !e.dearer(m, "audio", "input_cost_per_audio_token")
	m.Files = e.is("supports_pdf_input") && takesFiles(m)
	if r := e.cost("output_cost_per_reasoning_token"); r != nil && m.Price.Output != nil && r.Cmp(m.Price.Output) > 0 {
		m.Price.Output = r
	}
	if !m.Reasons {
		return
	}
	if levels, ok := e.members["reasoning_effort_levels"].([]any); ok {
		for _, known := range efforts {
			if slices.Contains(levels, any(known)) {
				m.Efforts = append(m.Efforts, known)
			}
		}
		return
	}
	usual := slices.Contains([]string{"openai", "azure", "anthropic", "gemini", "vertex_ai"}, m.Vendor) || strings.Contains(m.Name, "anthropic.")
	for _, known := range efforts {
		if usual && (slices.Contains([]string{"low", "medium", "high"}, known) || e.is("supports_"+known+"_reasoning_effort")) {
			m.Efforts = append(m.Efforts, known)
		}
	}
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func takesFiles(m *Model) bool {
	return slices.Contains([]string{"openai", "azure", "anthropic", "gemini", "vertex_ai"}, m.Vendor) ||
		strings.Contains(m.Name, "anthropic.")
}

// dearer notes a kind of input that costs more than text.
func (e *entry) dearer(m *Model, kind, key string) bool {
	cost := e.cost(key)
	if cost == nil || m.Price.Input != nil && cost.Cmp(m.Price.Input) <= 0 {
		return false
	}
	m.Dearer = append(m.Dearer, kind)
	return true
}

// sold says why the model cannot be sold by tokens.
func (e *entry) sold(key string, m *Model) {
	for _, k := range []string{"input_cost_per_request", "input_cost_per_query", "input_cost_per_second", "output_cost_per_image"} {
		if e.cost(k) != nil {
			m.Unsold = "the vendor also charges " + strings.ReplaceAll(k[strings.Index(k, "per_"):], "_", " ")
		}
	}
	switch {
	case m.Price.Input == nil || !m.Embedding && m.Price.Output == nil:
		m.Unsold = "the list has no price"
	case m.Context == 0:
		m.Unsold = "the list does not have the size of its context"
	case strings.HasPrefix(key, "ft:"):
		m.Unsold = "it is a base for models that customers train"
	}
}

var aboveKey = regexp.MustCompile(`^input_cost_per_token_above_(\d{1,5})k_tokens$`)

// long finds the prices of long prompts. A gateway has two steps: with more of them, the second one begins at the
// lowest bound with the highest prices.
func (e *entry) long(m *Model) {
	if tiers, ok := e.members["tiered_pricing"].([]any); ok {
		e.tiered(m, tiers)
		return
	}
	for key := range e.members {
		found := aboveKey.FindStringSubmatch(key)
		if found == nil {
			continue
		}
		k, _ := strconv.ParseInt(found[1], 10, 64)
		of := func(name string, otherwise *big.Rat) *big.Rat {
			return cmp.Or(e.cost(name+"_above_"+found[1]+"k_tokens"), otherwise)
		}
		m.lengthen(k*1000, Price{of("input_cost_per_token", m.Price.Input), of("output_cost_per_token", m.Price.Output),
			of("cache_read_input_token_cost", m.Price.CacheRead), of("cache_creation_input_token_cost", m.Price.CacheWrite)})
	}
}

func (e *entry) tiered(m *Model, tiers []any) {
	for _, one := range tiers {
		t, _ := one.(map[string]any)
		span, _ := t["range"].([]any)
		if len(span) == 0 {
			e.fail("tiered_pricing", "has a step without a range")
			return
		}
		from := (&entry{members: map[string]any{"from": span[0]}}).count("from")
		p := Price{e.rat("tiered_pricing", t["input_cost_per_token"]), e.rat("tiered_pricing", t["output_cost_per_token"]),
			e.rat("tiered_pricing", t["cache_read_input_token_cost"]), nil}
		p.Output = greater(p.Output, e.rat("tiered_pricing", t["output_cost_per_reasoning_token"]))
		if from == 0 {
			m.Price = p
		} else {
			m.lengthen(from, p)
		}
	}
}

// lengthen adds a step for prompts above a number of tokens.
func (m *Model) lengthen(above int64, p Price) {
	if above >= m.Context {
		return
	}
	if m.Long == nil {
		m.Long = &Long{above, p}
		return
	}
	m.Long.Above, m.Long.Price = min(m.Long.Above, above), Highest(m.Long.Price, p)
}

// Highest has the higher of two prices for each kind of token.
func Highest(a, b Price) Price {
	// Without a price of its own, cached input costs as much as input.
	read := greater(cmp.Or(a.CacheRead, a.Input), cmp.Or(b.CacheRead, b.Input))
	write := greater(cmp.Or(a.CacheWrite, a.Input), cmp.Or(b.CacheWrite, b.Input))
	return Price{greater(a.Input, b.Input), greater(a.Output, b.Output), read, write}
}

func greater(a, b *big.Rat) *big.Rat {
	if a == nil || b != nil && b.Cmp(a) > 0 {
		return b
	}
	return a
}

// PerMillion is a price per token times a factor, in USD per 1,000,000 tokens as a config has it: a decimal with at most
// six digits behind the point, rounded up. Empty for nil.
func PerMillion(r, factor *big.Rat) string {
	if r == nil {
		return ""
	}
	scaled := new(big.Rat).Mul(r, factor)
	scaled.Mul(scaled, big.NewRat(1_000_000_000_000, 1)) // millionths of a USD, per million tokens
	n, rest := new(big.Int).QuoRem(scaled.Num(), scaled.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	text := n.String()
	text = strings.Repeat("0", max(0, 7-len(text))) + text
	whole, part := text[:len(text)-6], strings.TrimRight(text[len(text)-6:], "0")
	return whole + "." + (part + "00")[:max(2, len(part))]
}
