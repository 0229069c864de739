package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Model is a catalog record with its targets. Its Spec has the keys that only some
// types have.
type Model struct {
	// Name that clients write: 1 to 128 letters, digits and . _ - : / @ +. openai/*, anthropic/* and the like stand for
	// all models of a vendor in the list of prices (farebox prices), as openai/NAME: the list says price, context and
	// capabilities. Required.
	ID string `yaml:"id"`
	// Type of the model, which says what other keys it has.
	Type string `yaml:"type" default:"text"`
	// Name for people. Default: the id.
	Name string `yaml:"name"`
	// Text for people. Default: none.
	Description string `yaml:"description"`
	// Where the model comes from, such as a link. Default: none.
	Source string `yaml:"source"`
	// Privacy of prompts in the catalog: private or anonymized.
	Privacy string `yaml:"privacy" default:"private" oneof:"private anonymized"`
	// Unix seconds.
	Created int64 `yaml:"created" default:"0" range:"0..253402300799"`
	// The catalog marks it as beta.
	Beta bool `yaml:"beta"`
	// The catalog marks it as uncensored.
	Uncensored bool `yaml:"uncensored"`
	// Two-letter codes of the only countries whose clients may use the model; others get 403. Needs
	// server.country_header. Default: everywhere.
	Regions []string `yaml:"region_restrictions" most:"250 countries"`
	// Listed, but calls get 503.
	Offline bool `yaml:"offline"`
	// Tier of limits.tiers. Default: M for text, embedding, image for pictures, audio for sound, music, video.
	Tier string `yaml:"tier"`

	// Names that may stand for the model. A trait belongs to one model of a type; the trait default serves requests
	// without a model.
	Traits []string `yaml:"traits" most:"100 traits"`
	// Names of the model at other services that clients may write.
	Aliases []string `yaml:"aliases" most:"100 aliases"`
	// Money that is held before a text model is asked: full, for its whole completion cap, or slice, which grows with
	// the text that is seen. Never use slice for a model that can think unseen. Default: full, but slice where
	// reasoning: false is written.
	Hold string `yaml:"hold"`
	// When the model ends. Default: never.
	Deprecation *Deprecation `yaml:"deprecation"`

	// The upstreams that serve the model, 1 to 64. Required.
	Targets []Target `yaml:"targets"`

	// Spec has the keys of the model's type: *Chat, *Embedding, *Image, *Speech, *Transcription,
	// *Music or *Video.
	Spec Spec `yaml:",inline"`
}

// Spec holds the keys that models of one type add to those of all models: their settings,
// features, and price.
type Spec interface {
	// Text says that the model is asked with text and answers with text or with
	// numbers about it.
	Text() bool
	// Free says that `price: free` is written.
	Free() bool

	// complete sets defaults that depend on other values.
	complete(m *Model)
	// check finds the mistakes below path, and checkTarget those of a target that
	// are about its upstream's dialect.
	check(v *validator, path string, m *Model)
	checkTarget(v *validator, path string, m *Model, t *Target, u *Upstream)
	// dearer says whether clients of a model of the same type could pay more here.
	dearer(than Spec) bool
}

// kind is a type of models.
type kind struct {
	name string
	tier string      // of models that name none
	rate Rate        // of that tier, unless it is one of all
	spec func() Spec // with its defaults
}

// kinds are the types that are served, in the order in which they are listed.
var kinds = slices.Concat([]kind{
	{"text", "M", Rate{}, newChat},
	{"embedding", "embedding", Rate{RPM: 500}, newEmbedding},
}, imageKinds, soundKinds, eachJob((*JobKind).kind))

// kindOf is the kind of a type, or that of text for a type that is not served.
func kindOf(typ string) (k kind, served bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == typ })
	return kinds[max(i, 0)], i >= 0
}

// ModelTypes are the types of models that are served.
func ModelTypes() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func (m *Model) defaults() { m.Spec = kinds[0].spec() }

// filledSpec gives the settings of a model their defaults.
func filledSpec(s Spec) Spec {
	fill(reflect.ValueOf(s).Elem())
	return s
}

// complete sets the defaults.
func (m *Model) complete() {
	if m.Tier == "" {
		k, _ := kindOf(m.Type)
		m.Tier = k.tier
	}
	if m.Name == "" {
		m.Name = m.ID
	}
	for i := range m.Targets {
		if m.Targets[i].Model == "" {
			m.Targets[i].Model = m.ID
		}
	}
	m.Spec.complete(m)
}

// Target is one upstream that serves a model.
type Target struct {
	// Name of the upstream. Required.
	Upstream string `yaml:"upstream"`
	// The upstream's name of the model. Default: the id.
	Model string `yaml:"model"`
	// Share of the requests among targets of the same priority.
	Weight int `yaml:"weight" default:"1" range:"1..1000"`
	// Lower numbers are asked first.
	Priority int `yaml:"priority" default:"0" range:"0..1000"`
	// Settings of the upstream's dialect for this model; config/README.md lists them. For text, thinking says how
	// reasoning_effort is sent: adaptive, budget or none for anthropic, level, budget or none for gemini. Default: by
	// the model's name there.
	Options map[string]string `yaml:"options"`
}

// HoldsFull says that the whole completion cap is held before the model is asked.
func (m *Model) HoldsFull() bool { return m.Hold != "slice" }

// Deprecation as in addendum 7.3 and 20. Dates are RFC 3339 or YYYY-MM-DD.
type Deprecation struct {
	// Announced from: a day (00:00 UTC) or 2026-09-01T12:00:00Z. Default: none.
	StartsAt time.Time `yaml:"starts_at"`
	// Deprecated from. Required.
	Date time.Time `yaml:"date"`
	// Not served from. Required.
	RemovesAt time.Time `yaml:"removes_at"`
	// Id of the model that clients should use. Default: none.
	Replacement string `yaml:"replacement"`
	// After the end calls go to the replacement, which may not cost more, instead of 410.
	AutoRemap bool `yaml:"auto_remap"`
}

const maxTargets = 64 // of a model

var (
	// A colon starts a feature suffix only before key=, so ids may have one.
	modelID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
	traitName = regexp.MustCompile(`^[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*$`)
)

const modelIDExpected = "expected 1 to 128 letters, digits and . _ - : / @ +, the first a letter or digit, such as " +
	"my-model-7b"

func (v *validator) models() {
	switch n := len(v.c.Models); {
	case n == 0 && (len(v.c.RPC.Networks) > 0 || v.c.Augment != (Augment{})):
	case n == 0 && v.misplaced: // that is reported
	case n == 0:
		v.wrong("models", "no model is configured; expected a list with id, price and targets of each")
	case v.ruledOut["models"]:
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
		m.Spec.check(v, path, m)
		v.targets(path, m, upstreams)
		v.regions(path, m)
		v.deprecation(path+".deprecation", m)
	}
}

// countryCode is one of ISO 3166.
var countryCode = regexp.MustCompile(`^[A-Z]{2}$`)

// regions checks where clients may use a model.
func (v *validator) regions(path string, m *Model) {
	path += ".region_restrictions"
	for i, code := range m.Regions {
		if at := fmt.Sprintf("%s[%d]", path, i); !countryCode.MatchString(code) {
			v.wrong(at, "%s is not a country; expected two capital letters, such as US", v.shown(at))
		}
	}
	if len(m.Regions) > 0 && v.c.Server.CountryHeader == "" {
		v.wrong(path, "no header tells the country of a client; expected server.country_header: too")
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
		if v.ruledOut[path] {
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
		if v.ruledOut[path] {
			continue
		}
		for j, trait := range m.Traits {
			at := fmt.Sprintf("%s[%d]", path, j)
			key := m.Type + " " + trait
			switch first, ok := held[key]; {
			case len(trait) > 64 || !traitName.MatchString(trait):
				v.wrong(at, "%s cannot be a trait; expected lower-case words joined by _ or -, such as default_code",
					v.shown(at))
			case taken[trait] != "":
				v.wrong(at, "%s is %s already; expected a name that no model id, alias or trait has", quote(trait),
					taken[trait])
			case ok:
				v.wrong(at, "%s belongs to models[%d] already; expected one model for a trait among the %s models",
					quote(trait), first, m.Type)
			default:
				held[key] = i
			}
		}
	}
}

// kind checks the type.
func (v *validator) kind(path string, m *Model) bool {
	if _, served := kindOf(m.Type); !served {
		v.oneOf(path+".type", m.Type, ModelTypes()...)
		return false
	}
	return true
}

func (v *validator) record(path string, m *Model) {
	for key, text := range map[string]string{"name": m.Name, "description": m.Description, "source": m.Source} {
		if len(text) > 4096 {
			v.wrong(path+"."+key, "the text has %d bytes; expected at most 4096", len(text))
		}
	}
	if _, ok := v.c.Limits.Tiers[m.Tier]; !ok {
		v.wrong(path+".tier", "there is no tier %s; expected %s, or define it below limits.tiers", quote(m.Tier),
			choice(v.c.TierNames()))
	}
}

func (v *validator) targets(path string, m *Model, upstreams map[string]*Upstream) {
	list := path + ".targets"
	if n := len(m.Targets); n == 0 || n > maxTargets {
		v.wrong(list, "the model has %d targets; expected 1 to %d, each with upstream: and, if it is called "+
			"otherwise there, model:", n, maxTargets)
		return
	}
	seen := map[[2]string]int{}
	for i, t := range m.Targets {
		at := fmt.Sprintf("%s[%d]", list, i)
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
		if !v.misled[u] {
			m.Spec.checkTarget(v, at, m, &t, u)
			v.vendorModel(at, &t, u)
		}
		key := [2]string{t.Upstream, t.Model}
		if first, ok := seen[key]; ok {
			v.wrong(at, "this is targets[%d] again; expected every target once: use weight: for its share", first)
		}
		seen[key] = i
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
		v.wrong(path+".starts_at", "%s is after date; expected starts_at <= date <= removes_at",
			v.shown(path+".starts_at"))
	}
	if !d.Date.IsZero() && !d.RemovesAt.IsZero() && d.Date.After(d.RemovesAt) {
		v.wrong(path+".removes_at", "%s is before date; expected starts_at <= date <= removes_at",
			v.shown(path+".removes_at"))
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
		v.wrong(path, "%s is deprecated itself; expected a model without a deprecation", quote(d.Replacement))
	case v.c.Models[i].Spec.dearer(m.Spec):
		v.wrong(path, "%s costs more, which clients who did not choose it would pay; expected a model of the same or "+
			"a lower price", quote(d.Replacement))
	}
}
