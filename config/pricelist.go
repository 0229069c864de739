package config

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"farebox/config/prices"
)

// Prices are those of models such as openai/*, which stand for all models of a vendor in the list.
type Prices struct {
	// File in the form of LiteLLM's model_prices_and_context_window.json in place of the built-in list. It is read with
	// the config. Default: the built-in list, which farebox prices shows.
	List string `yaml:"list"`
	// Factor on the list's prices of models such as openai/*.
	Margin Decimal `yaml:"margin" default:"1.2" range:"1..100"`
}

// allModels is behind the vendor's name in the id of a model that stands for many.
const allModels = "/*"

// listed are keys of a model that the list fills.
var listed = []string{"type", "name", "traits", "aliases", "deprecation", "context_tokens", "max_completion_tokens",
	"capabilities", "price", "max_input_tokens", "embedding_dimensions", "custom_dimensions"}

// wildcards replaces each model such as openai/* by those of the list. The first takes its place, so that the places of
// the others stay as they are in the file.
func (d *decoder) wildcards(root *node, c *Config) {
	var items []*node
	for _, k := range root.pairs {
		if k.name == "models" && k.value.kind == sequenceNode {
			items = k.value.items
		}
	}
	own := map[string]bool{}
	for i := range c.Models {
		own[c.Models[i].ID] = true
	}
	for i, item := range items {
		if i >= len(c.Models) {
			break
		}
		vendor, ok := strings.CutSuffix(c.Models[i].ID, allModels)
		path := fmt.Sprintf("models[%d]", i)
		if ok && (!d.wildcard(path, item, vendor, &c.Prices) || !d.expandModels(c, i, item, vendor, own)) {
			// Keys that the list would have filled are not missing.
			for _, key := range []string{".id", ".context_tokens", ".price", ".targets"} {
				d.bad[path+key] = true
			}
		}
	}
}

// wildcard checks an entry such as openai/*.
func (d *decoder) wildcard(path string, item *node, vendor string, p *Prices) bool {
	at := d.at[path+".id"].position
	var names []string
	for i := range prices.Vendors {
		if v := &prices.Vendors[i]; v.BaseURL != "" && len(prices.Builtin().Of(v.Name)) > 0 {
			names = append(names, v.Name+allModels)
		}
	}
	if p.List == "" && !slices.Contains(names, vendor+allModels) {
		expected := "expected a vendor of farebox prices --vendors, such as openai/*, or each model with its price"
		if near := suggest(vendor+allModels, names); near != "" {
			expected = "did you mean " + near + "?"
		}
		d.fail(at, path+".id", "the list of prices has no models for %s; %s", quote(vendor+allModels), expected)
		return false
	}
	good := true
	for _, k := range item.pairs {
		if slices.Contains(listed, k.name) {
			d.fail(k.at, join(path, k.name), "%s is taken from the list of prices; expected a model of its own for another value",
				k.name)
			good = false
		}
	}
	return good
}

// expandModels puts the models of the list in place of an entry; false if that failed.
func (d *decoder) expandModels(c *Config, i int, item *node, vendor string, own map[string]bool) bool {
	path := fmt.Sprintf("models[%d]", i)
	at := d.at[path+".id"].position
	list := d.priceList(c)
	if list == nil {
		return false
	}
	margin, ok := new(big.Rat).SetString(string(c.Prices.Margin))
	if !ok || margin.Cmp(big.NewRat(1, 1)) < 0 {
		return false // reported by the rule of the key
	}
	for t := range c.Models[i].Targets {
		if key := fmt.Sprintf("%s.targets[%d].model", path, t); c.Models[i].Targets[t].Model != "" {
			d.fail(d.at[key].position, key, "each model of the list has its own name there; expected this to be left out")
			return false
		}
	}
	made, embeds := 0, c.embedsAt(c.Models[i].Targets)
	for _, m := range list.Of(vendor) {
		id := vendor + "/" + m.Name
		if m.Unsold != "" || m.Embedding && !embeds || own[id] || !modelID.MatchString(id) || !m.Ends.IsZero() && m.Ends.Before(time.Now()) {
			continue
		}
		one := Model{}
		filled(reflect.ValueOf(&one).Elem())
		where := path
		if made > 0 {
			where = fmt.Sprintf("models[%d]", len(c.Models))
		}
		d.value(where, at, listedModel(item, at, id, &m, margin), reflect.ValueOf(&one).Elem())
		for t := range one.Targets {
			one.Targets[t].Model = m.Name
		}
		if made++; made == 1 {
			c.Models[i] = one
		} else {
			c.Models = append(c.Models, one)
		}
	}
	if made == 0 {
		d.fail(at, path+".id", "the list of prices has no models for %s; farebox prices shows it", quote(vendor+allModels))
	}
	return made > 0
}

// embedsAt says that the dialects of all targets have embeddings.
func (c *Config) embedsAt(targets []Target) bool {
	return !slices.ContainsFunc(c.Upstreams, func(u Upstream) bool {
		d, _ := u.speaks()
		return !d.embeds && slices.ContainsFunc(targets, func(t Target) bool { return t.Upstream == u.Name })
	})
}

// priceList reads the list once for all models; nil if that fails.
func (d *decoder) priceList(c *Config) *prices.List {
	if d.priced == nil && !d.bad["prices.list"] {
		var err error
		if d.priced, err = prices.Open(c.Prices.List); err != nil {
			d.fail(d.at["prices.list"].position, "prices.list", "cannot read %s: %v; expected a file in the form of LiteLLM's "+
				"model_prices_and_context_window.json", d.shown("prices.list"), plainPathError(err))
		}
	}
	return d.priced
}

// listedModel is the node of a model of the list: the entry's own keys, and the list's values.
func listedModel(item *node, at position, id string, m *prices.Model, margin *big.Rat) *node {
	plain := func(text string) *node { return plainNode(text, at) }
	group := func() *node { return &node{kind: mappingNode, line: at.line, column: at.column} }
	set := func(n *node, key string, value *node) { n.set(key, at, value) }
	n := group()
	name := plain(id)
	name.quoted = true
	set(n, "id", name)
	for _, k := range item.pairs {
		if k.name != "id" {
			n.pairs = append(n.pairs, k)
		}
	}
	price := func(p prices.Price) *node {
		g := group()
		for key, r := range map[string]*big.Rat{"input": p.Input, "output": p.Output, "cache_read": p.CacheRead,
			"cache_write": p.CacheWrite} {
			if text := prices.PerMillion(r, margin); text != "" && (key == "input" || !m.Embedding) {
				set(g, key, plain(text))
			}
		}
		set(g, "confirmed", plain("true"))
		return g
	}
	cost := price(m.Price)
	set(n, "price", cost)
	if m.Embedding {
		set(n, "type", plain("embedding"))
		set(n, "max_input_tokens", plain(strconv.FormatInt(m.Context, 10)))
		return n
	}
	set(n, "context_tokens", plain(strconv.FormatInt(m.Context, 10)))
	if m.Output > 0 {
		set(n, "max_completion_tokens", plain(strconv.FormatInt(m.Output, 10)))
	}
	if m.Long != nil {
		long := price(m.Long.Price)
		long.pairs = slices.DeleteFunc(long.pairs, func(k pair) bool { return k.name == "confirmed" })
		set(long, "above", plain(strconv.FormatInt(m.Long.Above, 10)))
		set(cost, "extended", long)
	}
	set(n, "capabilities", listedCapabilities(m, at))
	if !m.Ends.IsZero() {
		end := group()
		set(end, "date", plain(m.Ends.Format(time.DateOnly)))
		set(end, "removes_at", plain(m.Ends.Format(time.DateOnly)))
		set(n, "deprecation", end)
	}
	return n
}

// listedCapabilities is the node of the features of a model of the list.
func listedCapabilities(m *prices.Model, at position) *node {
	can := &node{kind: mappingNode, line: at.line, column: at.column}
	for key, on := range map[string]bool{"tools": m.Tools, "vision": m.Vision, "video": m.Video, "audio": m.Audio,
		"files": m.Files, "response_schema": m.Schema, "reasoning": m.Reasons} {
		if on {
			can.set(key, at, plainNode("true", at))
		}
	}
	if m.Vision {
		can.set("max_images", at, plainNode(strconv.Itoa(prices.MostImages), at))
	}
	if m.Video {
		can.set("max_videos", at, plainNode("1", at))
	}
	if len(m.Efforts) > 0 {
		list := &node{kind: sequenceNode, line: at.line, column: at.column}
		for _, effort := range m.Efforts {
			list.items = append(list.items, plainNode(effort, at))
		}
		can.set("reasoning_effort", at, list)
	}
	return can
}

// plainNode is a value as if it was in the file at a place.
func plainNode(text string, at position) *node {
	return &node{kind: scalarNode, text: text, line: at.line, column: at.column}
}

// set adds a key to a group.
func (n *node) set(key string, at position, value *node) {
	n.pairs = append(n.pairs, pair{name: key, at: at, value: value})
}
