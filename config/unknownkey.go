package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

func (d *decoder) unknown(path string, n *node, k pair, shapes []reflect.Value) {
	if strings.HasPrefix(path, "upstreams") || len(k.value.text) > 20 {
		d.src.hide(k.value) // a mistyped `kye: sk-…` is a secret too
	}
	keys := keysOf(shapes...)
	h, hint := habitOf(path, k)
	means, near := h.means, suggest(k.name, keys)
	switch place := elsewhere(k.name); {
	case hint != "":
	case k.value.kind == nullNode && regexpDigits.MatchString(strings.TrimLeft(k.name, "0")+"0"):
		hint = "a comma begins the next key here; expected a point before decimals, such as 0.15"
	case strings.ContainsFunc(k.name, oddSpace):
		hint = "it has a space that is no plain one: expected the line typed again"
	case near != "" && (slices.Contains(foreign[k.name], near) || place == "" || distance(k.name, near) == 1):
		hint, means = fmt.Sprintf("did you mean %s?", near), near
	case place != "":
		hint = place
	default:
		hint = "expected one of " + someKeys(keys)
	}
	if means != "" && !slices.ContainsFunc(n.pairs, func(one pair) bool { return one.name == means }) {
		d.bad[join(path, means)] = true // it is not missing as well
	}
	if path == "" && k.value.kind != scalarNode || k.name == "models" {
		d.misplaced = true
	}
	d.add(k.at, join(path, k.name), "unknown key %s; %s", quote(k.name), hint)
}

func oddSpace(c rune) bool { return c != ' ' && unicode.IsSpace(c) || c == '\u200b' || c == '\ufeff' }

// someKeys lists keys, unless they are too many to help.
func someKeys(keys []string) string {
	if len(keys) > 16 {
		return "the keys in config/REFERENCE.md (farebox config schema prints them, too)"
	}
	return strings.Join(keys, ", ")
}

// keysFor describes the values below a path that has no keys.
func keysFor(path string, shapes []reflect.Value) string {
	switch entryNumber.ReplaceAllString(path, "") {
	case "models":
		return "the keys of a model, such as id:, context_tokens:, price: and targets: [{ upstream: NAME }]"
	case "upstreams":
		return "the keys of an upstream, such as name:, base_url: and key:"
	}
	return "the keys " + someKeys(keysOf(shapes...))
}
