package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Files and keys of other gateways, and what they are here.

const ownFile = "farebox reads YAML with upstreams: and models: (see config/examples/minimal-openai.yaml)"

// otherFormats are files that are not YAML, by their first line that is no comment.
var otherFormats = []struct {
	line *regexp.Regexp
	what string
}{
	{regexp.MustCompile(`^-----BEGIN `), "this is a key or a certificate and no config"},
	{regexp.MustCompile(`^(export\s+)?[A-Z_][A-Z0-9_]*=`), "these are environment variables and no config"},
	{regexp.MustCompile(`^\[{1,2}[A-Za-z_][\w."-]*\]{1,2}\s*(#.*)?$|^[A-Za-z_][\w.-]*\s+=\s`), "this is TOML"},
	{regexp.MustCompile(`^(http|events|stream|server|upstream\s+[\w.-]+)\s*\{|^(user|worker_processes|error_log|pid|load_module|include)\s.*;\s*$`),
		"this is a config of nginx"},
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
				r.add(place{i + 1, indent(line) + 1}, "", "%s; %s", f.what, ownFile)
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
	{"Portkey", [][]string{{"strategy", "targets"}, {"virtual_key"}, {"provider", "api_key"}, {"provider", "override_params"}}, ownFile},
	{"Kong", [][]string{{"_format_version"}}, ownFile},
	{"Envoy", [][]string{{"static_resources"}, {"dynamic_resources"}}, ownFile},
	{"Kubernetes", [][]string{{"apiVersion", "kind"}}, "farebox reads YAML with upstreams: and models: at its top, such as the text in a ConfigMap"},
	{"Helicone", [][]string{{"routers"}}, ownFile},
	{"Docker Compose", [][]string{{"services"}}, ownFile},
	{"LibreChat", [][]string{{"endpoints", "version"}}, ownFile},
	{"Traefik", [][]string{{"http"}, {"entryPoints"}}, ownFile},
}

// foreignFile reports a whole config of another gateway, as one mistake.
func foreignFile(root *node, r *report) bool {
	at := map[string]place{}
	for _, k := range root.pairs {
		at[k.name] = k.at
	}
	if _, own := at["upstreams"]; own {
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
	return false
}

// habit is a key as other gateways have it.
type habit struct {
	means string                   // key of the same group that it stands for, and that is not missing then
	hint  string                   // what to write instead
	of    func(text string) string // the hint, by the value
}

var (
	byTier = habit{hint: "limits of requests and tokens are limits.tiers: { NAME: { rpm: 60, tpm: 100000 } }, and tier: NAME " +
		"at the models"}
	byTargets = habit{hint: "a failed request goes to the next target: expected several targets: at the model, and breaker: " +
		"at the upstream"}
	byPriority = habit{hint: "the order of upstreams is the priority: of a model's targets:, and their shares are weight:"}
	byTimeouts = habit{hint: "expected timeouts: { first_byte: 120s } or total: at the upstream", of: func(text string) string {
		if regexpDigits.MatchString(text) {
			return fmt.Sprintf("expected timeouts: { total: %ss }, or first_byte: for the wait before an answer", text)
		}
		return "expected timeouts: { first_byte: 120s }, or total: for the whole answer"
	}}
	byKeys    = habit{hint: "keys of clients are not in the config: expected farebox key create"}
	byModels  = habit{means: "price", hint: "prices are USD per 1,000,000 tokens: expected price: { input: 0.15, output: 0.60 }"}
	noGroup   = habit{hint: "this is a group of LiteLLM: expected it to be left out; farebox import litellm FILE converts a whole file"}
	byAddress = habit{means: "listen", hint: "expected listen: 127.0.0.1:8080", of: func(text string) string {
		if regexpDigits.MatchString(text) {
			return fmt.Sprintf("expected listen: 127.0.0.1:%s, or :%s for every address of this machine", text, text)
		}
		return fmt.Sprintf("expected listen: %s:8080", clip(text))
	}}
)

// can is a habit that is a capability of a text model.
func can(name string) habit { return habit{hint: "expected capabilities: { " + name + ": true }"} }

// perToken is a price of one token, written for a million.
func perToken(group bool, key string) habit {
	h := byModels
	if !group {
		h.means = key
	}
	h.of = func(text string) string {
		price, ok := ofOne(text)
		if !ok {
			price = "0.15"
		}
		if !group {
			return fmt.Sprintf("prices are USD per 1,000,000 tokens: expected %s: %s", key, price)
		}
		return fmt.Sprintf("prices are USD per 1,000,000 tokens: expected price: { %s: %s, … }", key, price)
	}
	return h
}

// ofOne is the price of one token, such as 0.0000025 or 2.5e-06, as a price of 1,000,000.
func ofOne(text string) (string, bool) {
	const most = 1_000_000_000 // 0.001 USD for one
	if digits, power, ok := strings.Cut(strings.ToLower(text), "e-"); ok {
		whole, part, _ := strings.Cut(digits, ".")
		n, err := strconv.Atoi(power)
		if err != nil || n < len(whole) || n > 12 || !jsonNumber.MatchString(digits) {
			return "", false
		}
		text = "0." + strings.Repeat("0", n-len(whole)) + whole + part
	}
	p, err := parseDecimal(text, 12)
	if err != nil || p == 0 || p >= most {
		return "", false
	}
	return Pico(p).PerMillion(), true
}

// habits are keys of other gateways by the group in which they are written: "" is the top.
var habits = map[string]map[string]habit{
	"": {
		"general_settings": {hint: "this is a group of LiteLLM: keys of clients come from farebox key create, and the ledger is in store:"},
		"router_settings": {hint: "this is a group of LiteLLM: the order of upstreams is the priority: of a model's targets:, and " +
			"their shares are weight:"},
		"litellm_settings": noGroup, "environment_variables": {hint: "expected ${NAME} in the values, and the variables in the environment"},
		"model_list": {hint: "this is a list of LiteLLM: farebox import litellm FILE writes upstreams: and models: from it"},
		"master_key": byKeys, "admin_key": byKeys, "api_keys": byKeys, "keys": byKeys, "virtual_keys": byKeys, "auth": byKeys, "users": byKeys,
		"database_url": {means: "store", hint: "expected store: postgres://user:${POSTGRES_PASSWORD}@host:5432/database"},
		"num_retries":  byTargets, "max_retries": byTargets, "retries": byTargets, "retry": byTargets, "allowed_fails": byTargets,
		"cooldown_time":   byTargets,
		"request_timeout": byTimeouts, "timeout": byTimeouts,
		"fallbacks": byPriority, "default_fallbacks": byPriority, "context_window_fallbacks": byPriority, "strategy": byPriority,
		"routing_strategy": byPriority, "load_balance": byPriority, "load-balance": byPriority, "routing": byPriority,
		"rate_limit": byTier, "rate_limits": byTier, "rpm": byTier, "tpm": byTier, "ratelimit": byTier,
		"port": byAddress, "host": byAddress, "addr": byAddress,
		"max_budget":        {hint: "money is limited by balances and keys: expected farebox account credit, or farebox key create with a limit"},
		"model_group_alias": {hint: "other names of a model are its aliases: [NAME]"},
		"providers":         {means: "upstreams", hint: "expected upstreams:, a list with name, base_url and key of each"},
		"channels":          {means: "upstreams", hint: "expected upstreams:, a list with name, base_url and key of each"},
		"metrics":           {hint: "expected server: { metrics_listen: 127.0.0.1:9464 }"},
		"logging":           {hint: "expected log: { level: info }"},
		"log_level":         {hint: "expected log: { level: info }"},
		"cache":             {hint: "answers are not cached: expected it to be left out"},
		"plugins":           {hint: "there are no plugins: expected it to be left out"},
		"callbacks":         {hint: "there are no callbacks: expected it to be left out; /metrics and the log report requests"},
	},
	"upstreams": {
		"models":   {hint: "models stand at the top, and each names its upstreams in targets:; expected it to be left out here"},
		"model":    {hint: "models stand at the top, and each names its upstreams in targets:; expected it to be left out here"},
		"weight":   {hint: "shares are of a model's targets: expected targets: [{ upstream: NAME, weight: 3 }]"},
		"priority": {hint: "the order is of a model's targets: expected targets: [{ upstream: NAME, priority: 1 }]"},
		"rpm":      byTier, "tpm": byTier, "rate_limit": byTier, "timeout": byTimeouts, "request_timeout": byTimeouts, "read_timeout": byTimeouts,
		"connect_timeout": {hint: "expected timeouts: { connect: 5s }"},
		"retries":         byTargets, "max_retries": byTargets, "num_retries": byTargets,
		"api_version": {hint: "expected dialect: azure and azure: { api_version: … }"},
		"api_type": {means: "dialect", hint: "expected dialect:", of: func(text string) string {
			return "expected dialect: " + clip(strings.ToLower(text))
		}},
		"organization":          {hint: "expected headers: { OpenAI-Organization: … }"},
		"project":               {hint: "expected google: { project: … } of dialect vertex, or headers: { OpenAI-Project: … }"},
		"region":                {hint: "expected dialect: bedrock and aws: { region: … }"},
		"aws_region_name":       {hint: "expected dialect: bedrock and aws: { region: … }"},
		"aws_access_key_id":     {hint: "expected dialect: bedrock and aws: { access_key: …, secret_key: … }"},
		"aws_secret_access_key": {hint: "expected dialect: bedrock and aws: { access_key: …, secret_key: … }"},
		"vertex_project":        {hint: "expected dialect: vertex and google: { project: … }"},
		"vertex_location":       {hint: "expected dialect: vertex and google: { location: … }"},
		"deployment":            {hint: "a deployment is the model: of a target"},
		"verify_ssl":            {hint: "certificates are always checked: expected ca_file: for authorities of your own"},
		"ssl_verify":            {hint: "certificates are always checked: expected ca_file: for authorities of your own"},
		"enabled":               {hint: "an upstream rests without targets: expected it to be left out, or # before the lines"},
	},
	"models": {
		"litellm_params": {means: "targets", hint: "this is a group of LiteLLM: expected targets: [{ upstream: NAME, model: … }]"},
		"model_info":     {hint: "this is a group of LiteLLM: expected capabilities:, context_tokens: and price: here"},
		"upstream":       {means: "targets", hint: "expected targets: [{ upstream: NAME }]"},
		"upstreams":      {means: "targets", hint: "expected targets: [{ upstream: NAME }]"},
		"model":          {hint: "the upstream's name of a model is model: of a target"},
		"provider":       {means: "targets", hint: "the providers of a model are its targets: [{ upstream: NAME, priority: 0 }]"},
		"providers":      {means: "targets", hint: "the providers of a model are its targets: [{ upstream: NAME, priority: 0 }]"},
		"backendRefs":    {means: "targets", hint: "expected targets: [{ upstream: NAME }]"},
		"strategy":       byPriority, "fallbacks": byPriority, "fallback": byPriority, "routing": byPriority, "weight": byPriority, "priority": byPriority,
		"rpm": byTier, "tpm": byTier, "rate_limit": byTier, "max_parallel_requests": byTier,
		"retries": byTargets, "max_retries": byTargets, "num_retries": byTargets, "timeout": byTimeouts,
		"input_cost_per_token": perToken(true, "input"), "output_cost_per_token": perToken(true, "output"),
		"supports_vision":           can("vision"),
		"supports_function_calling": can("tools"), "supports_tools": can("tools"), "tools": can("tools"), "vision": can("vision"),
		"supports_reasoning": can("reasoning"), "reasoning": can("reasoning"), "supports_response_schema": can("response_schema"),
		"supports_audio_input": can("audio"), "supports_pdf_input": can("files"),
		"enabled":  {hint: "expected offline: true for a model that is listed and not served"},
		"disabled": {hint: "expected offline: true for a model that is listed and not served"},
		"mode":     {means: "type", hint: "expected type: text, embedding, image, …"},
		"api_key":  {hint: "the key is of an upstream: expected key: there, and the upstream in targets:"},
		"api_base": {hint: "the address is of an upstream: expected base_url: there, and the upstream in targets:"},
	},
	"models.targets": {
		"provider":        {means: "upstream", hint: "did you mean upstream?"},
		"virtual_key":     {means: "upstream", hint: "a target names its upstream, which has the key: expected upstream: NAME"},
		"api_key":         {hint: "the key is of the upstream: expected key: there"},
		"api_base":        {hint: "the address is of the upstream: expected base_url: there"},
		"override_params": {hint: "parameters come from clients: expected model: for the upstream's name of the model, and nothing else"},
		"deployment":      {means: "model", hint: "a deployment is the model: of a target"},
		"retry":           byTargets, "retries": byTargets, "on_status_codes": byTargets, "timeout": byTimeouts,
	},
	"models.price": {
		"input_cost_per_token": perToken(false, "input"), "output_cost_per_token": perToken(false, "output"),
		"cache_read_input_token_cost": perToken(false, "cache_read"), "cache_creation_input_token_cost": perToken(false, "cache_write"),
	},
	"server": {
		"port": {hint: "expected listen: 127.0.0.1:8080 at the top"}, "host": {hint: "expected listen: 127.0.0.1:8080 at the top"},
		"listen":  {hint: "it stands at the top: expected listen: 127.0.0.1:8080"},
		"timeout": {hint: "expected read_timeout: for bodies of clients, or timeouts: at an upstream"},
	},
}

var entryNumber = regexp.MustCompile(`\[\d+\]`)

// habitOf is what a key of another gateway means in the group of a path.
func habitOf(path string, k pair) (h habit, hint string) {
	h, ok := habits[entryNumber.ReplaceAllString(path, "")][k.name]
	if !ok {
		return habit{}, ""
	}
	if h.of != nil && k.value.kind == scalarNode && !strings.Contains(k.value.text, "${") {
		return h, h.of(k.value.text)
	}
	return h, h.hint
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
