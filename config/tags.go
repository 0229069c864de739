package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// The tags of a field have the rules of its key, beside the name in `yaml`:
//
//	default:"35MB"        value of a key that is not written; "80 443" is a list of two words, and
//	                      "count: 20, window: 30s" replaces defaults of the keys of a group
//	zero:"4096"           default that also replaces a written 0, empty text or empty list
//	range:"1KB..512MB"    least and most; "0|1m..24h" also accepts 0 and says so in messages, "1m..24h|0"
//	                      accepts 0 and does not say so
//	oneof:"auto json"     known words; "|auto json" also accepts an empty text; "@name" is a list of wordLists
//	unique:"value"        entries of a list must differ; messages call an entry by this word
//	most:"64 upstreams"   longest list or table, and the word for its entries in messages
//	only:"image inpaint"  types of models that have the key
//	restart:"key"         a reload keeps the old value; "keys" reports each key of a group by itself
//
// The range and the words of a list are those of its entries. Rules that depend on other
// values are code: validate.go and the files of the groups.

// group has the keys of a struct.
type group struct {
	keys   []*key
	byName map[string]*key
	names  []string // in alphabetical order
	ruled  bool     // a key of it, or of a group below it, has a rule
}

// key is one field of a group.
type key struct {
	name    string // empty: the Spec of a model
	index   int
	initial reflect.Value // the default; not valid: none
	zero    bool          // the default replaces an empty value, too
	rule    *rule
	most    int
	entries string // the word for them
	unique  string
	only    []string
	restart string
	below   *group // of its entries, or of itself
}

// rule is the range of a value, or the words that it may be.
type rule struct {
	words       []string
	least, most int64
	blank       bool   // 0 or an empty text passes
	expected    string // the range in messages
}

// wordLists are lists of words that code needs, too.
var wordLists = map[string]func() []string{
	"dialects": func() []string { return dialectsThat(func(*dialect) bool { return true }) },
	"efforts":  func() []string { return ReasoningEfforts },
	"states":   func() []string { return tcbStates },
	"sounds":   func() []string { return SpeechFormats },

	"ratios":      func() []string { return VideoRatios },
	"resolutions": func() []string { return VideoResolutions },
	"tasks":       func() []string { return VideoTasks },
	"bitrates":    func() []string { return VideoBitrateModes },
}

var groups sync.Map // reflect.Type -> *group

// groupOf reads the tags of a type, once.
func groupOf(t reflect.Type) *group {
	if g, ok := groups.Load(t); ok {
		return g.(*group)
	}
	g := &group{byName: map[string]*key{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		switch name {
		case "", "-":
			continue
		case inlineTag:
			g.keys, g.ruled = append(g.keys, &key{index: i}), true
			continue
		}
		k := newKey(f, name, i)
		g.keys, g.byName[name], g.names = append(g.keys, k), k, append(g.names, name)
		g.ruled = g.ruled || k.rule != nil || k.most > 0 || k.below != nil
	}
	slices.Sort(g.names)
	groups.Store(t, g)
	return g
}

func newKey(f reflect.StructField, name string, index int) *key {
	k := &key{name: name, index: index, unique: f.Tag.Get("unique"), restart: f.Tag.Get("restart"),
		only: strings.Fields(f.Tag.Get("only"))}
	one := f.Type
	for one.Kind() == reflect.Pointer || one.Kind() == reflect.Slice || one.Kind() == reflect.Map {
		one = one.Elem()
	}
	if isGroup(one) {
		if below := groupOf(one); below.ruled {
			k.below = below
		}
	}
	text, ok := f.Tag.Lookup("default")
	if !ok {
		text, ok = f.Tag.Lookup("zero")
		k.zero = ok
	}
	if ok {
		k.initial = initial(f.Type, text)
	}
	if text := f.Tag.Get("range"); text != "" {
		k.rule = newRange(one, text)
	} else if text := f.Tag.Get("oneof"); text != "" {
		k.rule = newWords(text)
	}
	if text := f.Tag.Get("most"); text != "" {
		if _, err := fmt.Sscan(text, &k.most, &k.entries); err != nil {
			panic("config: tag most of " + f.Name + ": " + err.Error())
		}
	}
	return k
}

func isGroup(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

// initial is the default of a type.
func initial(t reflect.Type, text string) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(initial(t.Elem(), text))
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 0, 1))
		for word := range strings.FieldsSeq(text) {
			v.Set(reflect.Append(v, initial(t.Elem(), word)))
		}
	case isGroup(t):
		fill(v)
		for pair := range strings.SplitSeq(text, ", ") {
			name, value, _ := strings.Cut(pair, ": ")
			field, _ := fieldOf(v, name)
			field.Set(initial(field.Type(), value))
		}
	default:
		if err := readValue(text, v); err != nil {
			panic(fmt.Sprintf("config: default %q of a %s %v", text, t, err))
		}
	}
	return v
}

func newWords(text string) *rule {
	text, blank := strings.CutPrefix(text, "|")
	if name, ok := strings.CutPrefix(text, "@"); ok {
		return &rule{words: wordLists[name](), blank: blank}
	}
	return &rule{words: strings.Fields(text), blank: blank}
}

func newRange(t reflect.Type, text string) *rule {
	r, off := &rule{}, ""
	if rest, ok := strings.CutPrefix(text, "0|"); ok {
		text, r.blank, off = rest, true, "0 (off) or "
	}
	if rest, ok := strings.CutSuffix(text, "|0"); ok {
		text, r.blank = rest, true
	}
	least, most, _ := strings.Cut(text, "..")
	var from, to string
	r.least, from = bound(t, least)
	r.most, to = bound(t, most)
	if r.expected = off + from + " to " + to; t == reflect.TypeFor[Nano]() || t == reflect.TypeFor[Each]() {
		r.expected += " USD"
	}
	return r
}

// bound reads an end of a range, and writes it as messages do.
func bound(t reflect.Type, text string) (int64, string) {
	v := initial(t, text)
	switch of := v.Interface().(type) {
	case Decimal:
		return of.nanos(), text
	case time.Duration:
		return v.Int(), short(of)
	case fmt.Stringer: // sizes and money
		return v.Int(), of.String()
	}
	return v.Int(), text
}

// breaks reports whether a value is outside the range or not one of the words.
func (r *rule) breaks(v reflect.Value) bool {
	if r.blank && v.IsZero() {
		return false
	}
	if r.words != nil {
		return !slices.Contains(r.words, v.String())
	}
	n := int64(0)
	if d, ok := v.Interface().(Decimal); ok {
		n = d.nanos()
	} else {
		n = v.Int()
	}
	return n < r.least || n > r.most
}

// fill gives a group the defaults of its tags.
func fill(v reflect.Value) {
	for _, k := range groupOf(v.Type()).keys {
		switch field := v.Field(k.index); {
		case k.initial.IsValid():
			k.reset(field)
		case k.name != "" && isGroup(field.Type()):
			fill(field)
		}
	}
	if e, ok := v.Addr().Interface().(entry); ok {
		e.defaults()
	}
}

// refill resets the keys with the tag zero that were read as empty.
func refill(v reflect.Value) {
	for _, k := range groupOf(v.Type()).keys {
		field := v.Field(k.index)
		if k.name == "" {
			refill(field.Elem().Elem())
		} else if k.zero && (field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0) {
			k.reset(field)
		}
	}
}

// reset sets a field to a copy of its default.
func (k *key) reset(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		v.Elem().Set(k.initial.Elem())
	case reflect.Slice:
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, k.initial.Len()), k.initial))
	default:
		v.Set(k.initial)
	}
}

// Default returns a group with its defaults.
func Default[T any]() T {
	var v T
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// tags checks the written values of a group, and of all groups below, by their tags.
func (v *validator) tags(path string, g reflect.Value) {
	if m, ok := g.Addr().Interface().(*Model); ok {
		if _, served := kindOf(m.Type); !served {
			return // only its type is reported
		}
	}
	for _, k := range groupOf(g.Type()).keys {
		field := g.Field(k.index)
		if k.name == "" {
			v.tags(path, field.Elem().Elem())
		} else if k.rule != nil || k.most > 0 || k.below != nil {
			v.tag(path, k, field)
		}
	}
}

func (v *validator) tag(path string, k *key, field reflect.Value) {
	if field.Kind() == reflect.Pointer {
		if field.IsNil() {
			return
		}
		field = field.Elem()
	}
	switch field.Kind() {
	case reflect.Struct:
		v.tags(join(path, k.name), field)
	case reflect.Slice, reflect.Map:
		at, n := join(path, k.name), field.Len()
		if k.most > 0 && n > k.most {
			v.ruled(at, "%d %s are listed; expected at most %d", n, k.entries, k.most)
			return
		}
		v.entries(at, k, field)
	default:
		if k.rule != nil && k.rule.breaks(field) {
			v.broken(join(path, k.name), k.rule)
		}
	}
}

// entries checks those of a list or a table.
func (v *validator) entries(path string, k *key, list reflect.Value) {
	switch {
	case k.below != nil && list.Kind() == reflect.Map:
		names := list.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			one := reflect.New(list.Type().Elem()).Elem()
			one.Set(list.MapIndex(name))
			v.tags(join(path, name.String()), one)
		}
	case k.below != nil:
		for i := range list.Len() {
			v.tags(fmt.Sprintf("%s[%d]", path, i), list.Index(i))
		}
	case k.rule != nil:
		words, _ := list.Interface().([]string)
		for i := range list.Len() {
			at := fmt.Sprintf("%s[%d]", path, i)
			if k.rule.breaks(list.Index(i)) {
				v.broken(at, k.rule)
			} else if k.unique != "" && slices.Contains(words[:i], words[i]) {
				v.ruled(at, "%s is listed already; expected every %s once", quote(words[i]), k.unique)
			}
		}
	}
}

// broken reports a written value that breaks a rule.
func (v *validator) broken(path string, r *rule) {
	switch {
	case !v.has(path):
	case r.words != nil:
		v.ruled(path, "%s is not known; expected %s", v.shown(path), choice(r.words))
	default:
		v.ruled(path, "%s is out of range; expected %s", v.shown(path), r.expected)
	}
}

// ruled reports a broken rule of a tag. The value could be read, unlike others in bad.
func (v *validator) ruled(path, format string, args ...any) {
	v.wrong(path, format, args...)
	v.ruledOut[path] = true
}
