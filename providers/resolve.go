package providers

import (
	"bytes"
	"time"
)

// Match is the way in which a model's name was found.
type Match uint8

const (
	// NotFound: no model has the name.
	NotFound Match = iota
	// OtherType: only a model of another type has it.
	OtherType
	// Exact: it is the model's id.
	Exact
	// Alias: a foreign name of the compatibility mapping (addendum 7.6).
	Alias
	// Trait: a role that one model of the type has (addendum 7.5).
	Trait
	// Remapped: the named model was removed, another one takes its calls.
	Remapped
	// Gone: the named model was removed and has no successor: 410.
	Gone
)

// name fills the tables of names. The config has made sure that no name has
// two meanings.
func (c *Catalog) name() {
	c.names = map[string]*Model{}
	c.traits = map[string]map[string]*Model{}
	for _, m := range c.models {
		c.names[m.ID] = m
		for _, alias := range m.Config.Aliases {
			c.names[alias] = m
		}
		traits := c.traits[m.Config.Type]
		if traits == nil {
			traits = map[string]*Model{}
			c.traits[m.Config.Type] = traits
		}
		for _, trait := range m.Config.Traits {
			traits[trait] = m
		}
	}
}

// Resolve finds the model of a type by a client's name (addendum 7.6): by id,
// compatibility alias or trait; a removed model's successor takes its calls.
// The model is nil with NotFound, OtherType and Gone.
func (c *Catalog) Resolve(name []byte, typ string) (*Model, Match) {
	m, match := c.names[string(name)], Alias
	switch {
	case m == nil:
		if m, match = c.traits[typ][string(name)], Trait; m == nil {
			return nil, NotFound
		}
	case len(name) == len(m.ID) && string(name) == m.ID:
		match = Exact
	}
	if m.Config.Type != typ {
		return nil, OtherType
	}
	if m.Config.Deprecation == nil || !removed(m, c.clock()) {
		return m, match
	}
	if next := c.successor(m); next != nil {
		return next, Remapped
	}
	return nil, Gone
}

// Named says that a model of a type has the name.
func (c *Catalog) Named(name []byte, typ string) bool {
	m, _ := c.Resolve(name, typ)
	return m != nil
}

// Default is the model of a type for requests that do not name a model: the one with the
// trait `default`, else the first that is there; nil if absent.
func (c *Catalog) Default(typ string) *Model {
	if m := c.traits[typ]["default"]; m != nil && !removed(m, c.clock()) {
		return m
	}
	for _, m := range c.models {
		if m.Config.Type == typ && !removed(m, c.clock()) {
			return m
		}
	}
	return nil
}

// removed says that a model has been removed (addendum 20).
func removed(m *Model, now time.Time) bool {
	d := m.Config.Deprecation
	return d != nil && !d.RemovesAt.IsZero() && !now.Before(d.RemovesAt)
}

// successor is the model that takes the calls of a removed one; nil if absent.
func (c *Catalog) successor(m *Model) *Model {
	d := m.Config.Deprecation
	if !d.AutoRemap {
		return nil
	}
	next := c.names[d.Replacement]
	if next == nil || next.Config.Type != m.Config.Type || removed(next, c.clock()) {
		return nil
	}
	return next
}

// SplitSuffix cuts the feature suffix (addendum 5.4) off a model name: it
// begins at the first colon that key= follows, since ids may have colons. The
// suffix is returned without the colon; nil if absent.
func SplitSuffix(model []byte) (name, suffix []byte) {
	for at := 0; ; {
		n := bytes.IndexByte(model[at:], ':')
		if n < 0 {
			return model, nil
		}
		at += n + 1
		key := at
		for key < len(model) && keyByte(model[key]) {
			key++
		}
		if key > at && key < len(model) && model[key] == '=' {
			return model[:at-1], model[at:]
		}
	}
}

func keyByte(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}
