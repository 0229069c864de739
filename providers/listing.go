package providers

import (
	"slices"
	"time"

	"farebox/config"
	"farebox/proxy/jsontext"
)

// Types are the values of ?type= (addendum 7.1) in alphabetical order: all types, and two
// views: `all`, and `code` for text models that are made for code.
var Types = slices.Sorted(slices.Values(append(config.ModelTypes(), "all", "code")))

// listing holds the complete bodies of the catalog's endpoints, by type.
type listing struct {
	models, traits, aliases map[string][]byte
	until                   time.Time // when the next model is removed; zero: never
}

// List is the body of GET /models?type= (addendum 7.1). Types without models
// have an empty list; ok is false for a type that does not exist. The body
// must not be changed.
func (c *Catalog) List(typ string, now time.Time) (body []byte, ok bool) {
	body, ok = c.current(now).models[typ]
	return body, ok
}

// ListOf is List with the models that may be seen.
func (c *Catalog) ListOf(typ string, now time.Time, may func(*config.Model) bool) (body []byte, ok bool) {
	if !slices.Contains(Types, typ) {
		return nil, false
	}
	return c.listModels(typ, now, may), true
}

// Find is the model of an id or alias; nil if there is no such model.
func (c *Catalog) Find(name string, now time.Time) *Model {
	if m := c.names[name]; m != nil && !removed(m, now) {
		return m
	}
	return nil
}

// Record is a model's entry in the list.
func (c *Catalog) Record(m *Model) []byte { return appendRecord(nil, m, c.brand, c.upscalePrice()) }

func (c *Catalog) upscalePrice() *config.ImagePrice {
	if m := c.Default("upscale"); m != nil {
		return m.Config.Spec.(*config.Image).Price
	}
	return nil
}

// Traits is the body of GET /models/traits?type= (addendum 7.5).
func (c *Catalog) Traits(typ string) (body []byte, ok bool) {
	body, ok = c.current(c.clock()).traits[typ]
	return body, ok
}

// Compatibility is the body of GET /models/compatibility_mapping?type=
// (addendum 7.6).
func (c *Catalog) Compatibility(typ string) (body []byte, ok bool) {
	body, ok = c.current(c.clock()).aliases[typ]
	return body, ok
}

// current is the listing, made anew when a model was removed since.
func (c *Catalog) current(now time.Time) *listing {
	l := c.listing.Load()
	if l.until.IsZero() || now.Before(l.until) {
		return l
	}
	c.relist.Lock()
	defer c.relist.Unlock()
	if l = c.listing.Load(); l.until.IsZero() || now.Before(l.until) {
		return l
	}
	l = c.list(now)
	c.listing.Store(l)
	return l
}

// list writes every body.
func (c *Catalog) list(now time.Time) *listing {
	l := &listing{models: map[string][]byte{}, traits: map[string][]byte{}, aliases: map[string][]byte{}}
	for _, m := range c.models {
		d := m.Config.Deprecation
		if d != nil && now.Before(d.RemovesAt) && (l.until.IsZero() || d.RemovesAt.Before(l.until)) {
			l.until = d.RemovesAt
		}
	}
	for _, typ := range Types {
		l.models[typ] = c.listModels(typ, now, nil)
		l.traits[typ] = c.listNames(typ, now, func(m *Model) []string { return m.Config.Traits })
		l.aliases[typ] = c.listNames(typ, now, func(m *Model) []string { return m.Config.Aliases })
	}
	return l
}

func isOfType(m *Model, typ string) bool {
	switch typ {
	case "all":
		return true
	case "code":
		return m.Chat.Capabilities.Code
	}
	return m.Config.Type == typ
}

// listModels lists the models of a type that may be seen; nil: all may.
func (c *Catalog) listModels(typ string, now time.Time, may func(*config.Model) bool) []byte {
	w := envelope(typ)
	w.b = append(w.b, '[')
	upscale := c.upscalePrice()
	for _, m := range c.models {
		if !isOfType(m, typ) || removed(m, now) || may != nil && !may(m.Config) {
			continue
		}
		w.b = appendRecord(w.b, m, c.brand, upscale)
	}
	w.b = append(w.b, ']', '}')
	return w.b
}

// listNames maps names to the ids of the models that have them. The names of a
// removed model are its successor's.
func (c *Catalog) listNames(typ string, now time.Time, names func(*Model) []string) []byte {
	w := envelope(typ)
	w.b = append(w.b, '{')
	seen := map[string]bool{}
	for _, m := range c.models {
		if !isOfType(m, typ) {
			continue
		}
		id := m.ID
		if removed(m, now) {
			next := c.successor(m)
			if next == nil {
				continue
			}
			id = next.ID
		}
		for _, name := range names(m) {
			// Traits of two types may have one name; `all` shows the first.
			if !seen[name] {
				seen[name] = true
				w.text(name, id)
			}
		}
	}
	w.b = append(w.b, '}', '}')
	return w.b
}

func envelope(typ string) *writer {
	w := &writer{b: []byte(`{"object":"list","type":`)}
	w.b = jsontext.AppendString(w.b, typ)
	w.b = append(w.b, `,"data":`...)
	return w
}
