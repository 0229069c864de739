package config

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// mostDifferences bounds each list of a Difference.
const mostDifferences = 500

// Difference lists the changes from one config to another. Secrets are masked.
type Difference struct {
	Prices  []PriceChange `json:"prices"`
	Restart []KeyChange   `json:"restart"` // a reload keeps their old values
	Other   []KeyChange   `json:"other"`
	More    int           `json:"more"` // changes that are left out of the lists
}

// PriceChange is a price that changes. Old is empty for a new one, and New for one that ends.
type PriceChange struct {
	Model string `json:"model"` // empty: the price is of no model
	Kind  string `json:"kind"`  // the key below price, or the whole key
	Old   string `json:"old"`
	New   string `json:"new"`
	// Percent is how much higher the new price is; null if one of them is missing or the old one is 0.
	Percent *float64 `json:"percent"`
}

// KeyChange is a key that changes.
type KeyChange struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

// leaf is one value of a config.
type leaf struct {
	text   string // as it is shown
	exact  string // as it is compared
	amount int64  // of a price
	priced bool
	entry  bool // of a list: the keys below have the same path before them
}

// Differences compares two checked configs.
func Differences(old, next *Config) Difference {
	a, b := leaves(old), leaves(next)
	fixed := Fixed(old, next)
	d := Difference{Prices: []PriceChange{}, Restart: []KeyChange{}, Other: []KeyChange{}}
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	within := "" // an entry that only one of them has
	for _, key := range keys {
		x, inOld := a[key]
		y, inNew := b[key]
		inside := within != "" && strings.HasPrefix(key, within)
		switch {
		case inOld && inNew && x.exact == y.exact:
		case x.priced || y.priced:
			d.price(key, x, y, inOld && inNew)
		case inside:
		case x.entry || y.entry:
			within = key + "."
			change := KeyChange{key, "", "added"}
			if inOld {
				change = KeyChange{key, "", "removed"}
			}
			d.add(&d.Other, change)
		case slices.ContainsFunc(fixed, func(name string) bool { return key == name || strings.HasPrefix(key, name+".") }):
			d.add(&d.Restart, KeyChange{key, x.text, y.text})
		default:
			d.add(&d.Other, KeyChange{key, x.text, y.text})
		}
	}
	return d
}

func (d *Difference) add(list *[]KeyChange, c KeyChange) {
	if len(*list) >= mostDifferences {
		d.More++
		return
	}
	*list = append(*list, c)
}

func (d *Difference) price(key string, x, y leaf, both bool) {
	if len(d.Prices) >= mostDifferences {
		d.More++
		return
	}
	c := PriceChange{Kind: key, Old: x.text, New: y.text}
	if rest, ok := strings.CutPrefix(key, "models["); ok {
		c.Model, c.Kind, _ = strings.Cut(rest, "].")
		c.Kind = strings.TrimPrefix(c.Kind, "price.")
	}
	if both && x.amount != 0 {
		percent := math.Round(10_000*(float64(y.amount)/float64(x.amount)-1)) / 100
		c.Percent = &percent
	}
	d.Prices = append(d.Prices, c)
}

// leaves are the values of a config by their keys. Entries of lists go by their names.
func leaves(c *Config) map[string]leaf {
	list := map[string]leaf{}
	walk(list, "", reflect.ValueOf(c).Elem(), false)
	return list
}

var entryNames = []string{"id", "name", "upstream", "address", "url"}

func walk(list map[string]leaf, path string, v reflect.Value, hidden bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			walk(list, path, v.Elem(), hidden)
		}
		return
	case reflect.Map:
		for _, k := range v.MapKeys() {
			walk(list, join(path, fmt.Sprint(k.Interface())), v.MapIndex(k), hidden)
		}
		return
	case reflect.Slice:
		if one := deref(v.Type().Elem()); isGroup(one) {
			walkEntries(list, path, v, hidden)
			return
		}
	case reflect.Struct:
		if isGroup(v.Type()) {
			for _, k := range groupOf(v.Type()).keys {
				at := path
				if k.name != "" {
					at = join(path, k.name)
				}
				walk(list, at, v.Field(k.index), hidden || secretName.MatchString(k.name))
			}
			return
		}
	}
	if !v.IsZero() {
		list[path] = leafOf(v, hidden)
	}
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func walkEntries(list map[string]leaf, path string, v reflect.Value, hidden bool) {
	for i := range v.Len() {
		entry := v.Index(i)
		at := fmt.Sprintf("%s[%s]", path, entryName(entry, i))
		for n := 2; list[at].entry; n++ {
			at = fmt.Sprintf("%s[%s#%d]", path, entryName(entry, i), n)
		}
		list[at] = leaf{entry: true}
		walk(list, at, entry, hidden)
	}
}

// entryName is the name of an entry of a list.
func entryName(entry reflect.Value, i int) string {
	for entry.Kind() == reflect.Pointer {
		entry = entry.Elem()
	}
	g := groupOf(entry.Type())
	for _, name := range entryNames {
		if k := g.byName[name]; k != nil && entry.Field(k.index).Kind() == reflect.String && entry.Field(k.index).Type() != reflect.TypeFor[Secret]() {
			if text := entry.Field(k.index).String(); text != "" {
				return veiled(text)
			}
		}
	}
	return fmt.Sprint(i)
}

// leafOf shows a value.
func leafOf(v reflect.Value, hidden bool) leaf {
	switch of := v.Interface().(type) {
	case Secret:
		return leaf{text: mask, exact: of.Reveal()}
	case Pico:
		return leaf{text: of.PerMillion(), exact: of.PerMillion(), amount: int64(of), priced: true}
	case Each:
		return leaf{text: of.String(), exact: of.String(), amount: int64(of), priced: true}
	case time.Duration:
		return leaf{text: short(of), exact: short(of)}
	}
	if v.Type().ConvertibleTo(reflect.TypeFor[[]Secret]()) {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = v.Index(i).String()
		}
		return leaf{text: mask, exact: strings.Join(parts, "\n")}
	}
	exact := fmt.Sprint(v.Interface())
	if hidden && v.Kind() == reflect.String {
		return leaf{text: mask, exact: exact}
	}
	return leaf{text: veiled(exact), exact: exact}
}

// mostShown is how much of a value is shown.
const mostShown = 200

// veiled is a text with likely secrets masked, and not too long.
func veiled(text string) string {
	if privateKey.MatchString(text) {
		return mask
	}
	text = userinfo.ReplaceAllString(text, "://"+mask+"@")
	text = pasted.ReplaceAllString(text, mask)
	if runes := []rune(text); len(runes) > mostShown {
		text = string(runes[:mostShown]) + "…"
	}
	return text
}

// String is a difference for people, the prices first.
func (d Difference) String() string {
	var b strings.Builder
	shown := func(text string) string { return cmp.Or(text, "(none)") }
	for _, p := range d.Prices {
		fmt.Fprintf(&b, "price %s %s: %s -> %s", p.Model, p.Kind, shown(p.Old), shown(p.New))
		if p.Percent != nil {
			fmt.Fprintf(&b, " (%+.2f %%)", *p.Percent)
		}
		b.WriteByte('\n')
	}
	for _, c := range d.Restart {
		fmt.Fprintf(&b, "restart needed %s: %s -> %s\n", c.Key, shown(c.Old), shown(c.New))
	}
	for _, c := range d.Other {
		fmt.Fprintf(&b, "%s: %s -> %s\n", c.Key, shown(c.Old), shown(c.New))
	}
	if d.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", d.More)
	}
	if b.Len() == 0 {
		return "no difference\n"
	}
	return b.String()
}

// ownKeys are those that differ from node to node.
var ownKeys = []string{"node", "listen", "store", "tls", "log", "operator.listen", "server.metrics_listen"}

// Digest tells configs apart, whatever they have in secret. The keys of a single node do not count.
func (c *Config) Digest(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	list := leaves(c)
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if !slices.ContainsFunc(ownKeys, func(own string) bool { return key == own || strings.HasPrefix(key, own+".") }) {
			fmt.Fprintf(mac, "%q %q\n", key, list[key].exact)
		}
	}
	return hex.EncodeToString(mac.Sum(nil)[:6])
}
