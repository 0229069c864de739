package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Files and keys of other gateways, and their equivalents here.

const ownFile = "farebox reads YAML with upstreams: and models: (see config/examples/minimal-openai.yaml)"

// otherFormats are files that are not YAML, by their first line that is not a comment.
var otherFormats = []struct {
	line *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^-----BEGIN `), "this is a key or a certificate and no config"},
	{regexp.MustCompile(`^(export\s+)?[A-Z_][A-Z0-9_]*=`), "these are environment variables and no config"},
	{regexp.MustCompile(`^\[{1,2}[A-Za-z_][\w."-]*\]{1,2}\s*(#.*)?$|^[A-Za-z_][\w.-]*\s+=\s`), "this is TOML"},
	{regexp.MustCompile(`^(http|events|stream|server|upstream\s+[\w.-]+)\s*\{`), "this is a config of nginx"},
	{regexp.MustCompile(`^(user|worker_processes|error_log|pid|load_module|include)\s.*;\s*$`), "this is a config of nginx"},
	{regexp.MustCompile(`^[^\s{}\[\]"'#&*!|>%@-]\S*(,?\s+[^\s{}\[\]:]+)*\s+\{$`), "this looks like a config of Caddy"},
	{regexp.MustCompile(`^<[^<]`), "this is XML or HTML"},
}

// foreignFormat reports a file in another format, which the YAML parser would report oddly.
func foreignFormat(s *source, r *report) bool {
	for i, line := range s.lines {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		for _, f := range otherFormats {
			if f.line.MatchString(text) && !strings.Contains(text, ": ") {
				if strings.Contains(line, "=") || strings.HasPrefix(text, "-----") {
					s.hideSpan(i+1, strings.Index(line, "=")+1, -1)
				}
				r.add(position{i + 1, indent(line) + 1}, "", "%s; %s", f.what, ownFile)
				return true
			}
		}
		return false
	}
	return false
}

// otherGateways are known by keys at the top of their files: all words of one of the lists.
var otherGateways = []struct {
	name string
	keys [][]string
	hint string
}{
	{"LiteLLM", [][]string{{"model_list"}, {"litellm_settings"}, {"general_settings"}, {"router_settings"}},
		"farebox import litellm FILE writes one of farebox's"},
	{"Portkey", [][]string{{"strategy", "targets"}, {"virtual_key"}, {"provider", "api_key"},
		{"provider", "override_params"}}, ownFile},
	{"Kong", [][]string{{"_format_version"}}, ownFile},
	{"Envoy", [][]string{{"static_resources"}, {"dynamic_resources"}}, ownFile},
	{"Kubernetes", [][]string{{"apiVersion", "kind"}}, "farebox reads YAML with upstreams: and models: at its top, such as " +
		"the text in a ConfigMap"},
	{"Helicone", [][]string{{"routers"}}, ownFile},
	{"Docker Compose", [][]string{{"services"}}, ownFile},
	{"LibreChat", [][]string{{"endpoints", "version"}}, ownFile},
	{"Traefik", [][]string{{"http"}, {"entryPoints"}}, ownFile},
}

// foreignFile reports a whole config of another gateway, as one mistake.
func foreignFile(root *node, r *report) bool {
	at := map[string]position{}
	for _, k := range root.pairs {
		at[k.name] = k.at
	}
	if _, found := at["upstreams"]; found {
		return false // a config of farebox with a foreign key
	}
	for _, g := range otherGateways {
		for _, words := range g.keys {
			if slices.ContainsFunc(words, func(word string) bool { _, ok := at[word]; return !ok }) {
				continue
			}
			first := at[words[0]]
			for _, words := range g.keys {
				for _, word := range words {
					if p, ok := at[word]; ok && p.line < first.line {
						first = p
					}
				}
			}
			r.add(first, "", "this is a config of %s; %s", g.name, g.hint)
			return true
		}
	}
	own := groupOf(reflect.TypeFor[Config]())
	for _, k := range root.pairs {
		if _, hint := habitOf("", k); hint != "" || own.byName[k.name] != nil || suggest(k.name, own.names) != "" {
			return false
		}
	}
	if len(root.pairs) == 0 {
		return false
	}
	r.add(root.pairs[0].at, "", "no key at the top of this file is farebox's; %s", ownFile)
	return true
}

// keyPlaces are the groups that have a key, as "compat" or "upstreams[].timeouts".
var keyPlaces = sync.OnceValue(func() map[string][]string {
	places := map[string][]string{}
	var visit func(path string, t reflect.Type, depth int)
	visit = func(path string, t reflect.Type, depth int) {
		for _, name := range groupOf(t).names {
			if !slices.Contains(places[name], path) {
				places[name] = append(places[name], path)
			}
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, one, entry := f.Tag.Get("yaml"), f.Type, ""
			for one.Kind() == reflect.Pointer || one.Kind() == reflect.Slice || one.Kind() == reflect.Map {
				if one.Kind() != reflect.Pointer {
					entry = "[]"
				}
				one = one.Elem()
			}
			if name == "" || name == "-" || name == inlineTag || !isGroup(one) || depth > 4 {
				continue
			}
			visit(join(path, name)+entry, one, depth+1)
		}
	}
	visit("", reflect.TypeFor[Config](), 0)
	for _, k := range kinds {
		visit("models[]", reflect.TypeOf(k.spec()).Elem(), 1)
	}
	return places
})

// elsewhere says where a key stands, if that is clear; empty: it is not.
func elsewhere(name string) string {
	places := keyPlaces()[name]
	if len(places) == 0 || len(places) > 2 {
		return ""
	}
	words := slices.Clone(places)
	if i := slices.Index(words, ""); i >= 0 {
		words[i] = "the top of the file"
	}
	return "it stands in " + choice(words) + ": expected it there"
}
