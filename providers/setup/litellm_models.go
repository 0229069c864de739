package setup

import (
	"cmp"
	"fmt"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"farebox/config/prices"
)

// servers are providers of LiteLLM that are OpenAI's API at an address of one's own, with the usual one.
var servers = map[string]string{
	"ollama": "http://127.0.0.1:11434", "ollama_chat": "http://127.0.0.1:11434", "hosted_vllm": "", "vllm": "", "openai_like": "",
	"custom_openai": "", "lm_studio": "http://127.0.0.1:1234/v1", "llamafile": "http://127.0.0.1:8080/v1", "xinference": "",
	"litellm_proxy": "", "docker_model_runner": "", "lemonade": "", "infinity": "", "text-completion-openai": "",
}

// entry converts an entry of model_list.
func (t *litellm) entry(i int, m group) {
	name := m.text("model_name")
	at := fmt.Sprintf("model_list[%d] (%s)", i, name)
	params, info := m.group("litellm_params"), m.group("model_info")
	for key, value := range t.credentials[params.text("litellm_credential_name")] {
		if _, own := params[key]; !own {
			params[key] = value
		}
	}
	full := params.text("model")
	if full == "" || name == "" {
		t.note("%s is left out: it has no model_name or no litellm_params.model", at)
		return
	}
	if mode := info.text("mode"); mode != "" && mode != "chat" && mode != "embedding" && mode != "completion" && mode != "responses" {
		t.note("%s is left out: models of mode %s need prices of their own kind (config/README.md, pictures, speech and transcriptions)", at, mode)
		return
	}
	provider, model, ok := t.provider(full, params)
	if !ok {
		t.note("%s is left out: farebox has no dialect for %q. If the server has the API of OpenAI, write model: openai/… and api_base", at, full)
		return
	}
	u, why := t.upstream(provider, model, params)
	if why != "" {
		t.note("%s is left out: %s", at, why)
		return
	}
	if strings.HasSuffix(model, "*") {
		t.wildcard(at, name, provider, model, u)
		return
	}
	t.add(at, name, provider, model, u, params, info)
}

// provider splits openai/gpt-5 into provider and model.
func (t *litellm) provider(full string, params group) (provider, model string, ok bool) {
	custom := params.text("custom_llm_provider")
	prefix, rest, slash := strings.Cut(full, "/")
	if prefix == "vertex_ai_beta" {
		prefix = "vertex_ai"
	}
	_, server := servers[prefix]
	switch {
	case prefix == "bedrock" && slash:
		_, after, routed := strings.Cut(rest, "/") // converse/, invoke/
		if routed {
			rest = after
		}
		return prefix, rest, true
	case slash && (server || prices.VendorNamed(prefix) != nil):
		return prefix, rest, true
	case custom != "":
		_, server = servers[custom]
		return custom, full, server || prices.VendorNamed(custom) != nil
	case slash:
		return "", "", false
	}
	for _, vendor := range []string{"openai", "anthropic", "gemini", "mistral", "deepseek", "bedrock"} {
		if t.list.Find(vendor, full) != nil {
			return vendor, full, true
		}
	}
	switch {
	case full == "*":
		return "openai", full, true
	case strings.HasPrefix(full, "gpt-"), params["api_base"] != nil:
		return "openai", full, true
	case strings.HasPrefix(full, "claude-"):
		return "anthropic", full, true
	}
	return "", "", false
}

// upstream finds or makes the upstream of an entry; why names the missing part.
func (t *litellm) upstream(provider, model string, params group) (u *upstream, why string) {
	v := prices.VendorNamed(provider)
	base := strings.TrimRight(variables(cmp.Or(params.text("api_base"), params.text("base_url"))), "/")
	_ = params.take("base_url")
	u = &upstream{name: provider, key: variables(params.text("api_key"))}
	version := variables(params.text("api_version"))
	aws, google := awsOf(params), googleOf(params)
	organization := variables(params.text("organization"))
	switch {
	case provider == "azure":
		if base == "" {
			base = "${AZURE_API_BASE}"
		}
		u.dialect, u.base, u.key = "azure", azureBase(base), cmp.Or(u.key, "${AZURE_API_KEY}")
		if version != "" {
			u.lines = append(u.lines, "azure: { api_version: "+quoted(version)+" }")
		}
	case provider == "bedrock":
		u.dialect = "bedrock"
		anthropic := strings.Contains(model, "anthropic.")
		if !anthropic && !strings.Contains(model, "openai.") {
			return nil, "of Bedrock farebox asks the APIs of OpenAI and Anthropic, which have models of openai and anthropic"
		}
		if aws.region == "" {
			aws.region = "${AWS_REGION}"
		}
		u.lines = append(u.lines, aws.line(anthropic, &u.key))
		if base != "" {
			u.base = base
		}
		if anthropic {
			u.name = "bedrock-anthropic"
		}
	case provider == "vertex_ai":
		u.dialect = "vertex"
		claude := strings.HasPrefix(model, "claude-")
		if !claude && !strings.HasPrefix(model, "gemini-") {
			return nil, "of Vertex AI farebox asks for models of Google and Anthropic"
		}
		line, missing := google.line(claude)
		if missing != "" {
			return nil, missing
		}
		u.lines = append(u.lines, line)
		if claude {
			u.name = "vertex-anthropic"
		}
	case v != nil:
		u.dialect, u.base = v.Dialect, v.BaseURL
		if base != "" {
			u.base = v.At(base)
		}
		if u.key == "" && (base == "" || v.Name != "openai") {
			u.key = "${" + v.Keys[0] + "}"
		}
		u.lines = append(u.lines, compatible(v)...)
	default:
		if base = cmp.Or(base, servers[provider]); base == "" {
			return nil, "it has no api_base"
		}
		u.base, u.lines = withVersion(base), append([]string{"max_idle: 4s"}, compatible(nil)...)
	}
	u.headers(organization, params.group("extra_headers"))
	t.limits(u, params)
	return t.same(u), ""
}

// headers are those of every request.
func (u *upstream) headers(organization string, extra group) {
	var words []string
	if organization != "" {
		words = append(words, "OpenAI-Organization: "+quoted(organization))
	}
	for _, key := range extra.rest() {
		words = append(words, quoted(key)+": "+quoted(variables(extra.text(key))))
	}
	if len(words) > 0 {
		u.lines = append(u.lines, "headers: { "+strings.Join(words, ", ")+" }")
	}
}

// limits carries over timeouts and the settings for resting targets.
func (t *litellm) limits(u *upstream, params group) {
	timeout, first := cmp.Or(params.number("timeout"), t.timeout), params.number("stream_timeout")
	switch {
	case first >= 0.1 && first <= 3600:
		u.lines = append(u.lines, fmt.Sprintf("timeouts: { first_byte: %dms }", int64(first*1000)))
	case timeout >= 0.1 && timeout <= 3600:
		u.lines = append(u.lines, fmt.Sprintf("timeouts: { first_byte: %dms }", int64(timeout*1000)))
	}
	if t.failures > 0 || t.cooldown > 0 {
		var words []string
		if t.failures > 0 {
			words = append(words, fmt.Sprintf("failures: %d", min(t.failures, 10000)))
		}
		if t.cooldown > 0 {
			words = append(words, fmt.Sprintf("open_for: %ds", max(1, min(int64(t.cooldown), 3600))))
		}
		u.lines = append(u.lines, "breaker: { "+strings.Join(words, ", ")+" }")
	}
}

// same is the upstream of the draft that is like u, or u with a name of its own.
func (t *litellm) same(u *upstream) *upstream {
	taken := 0
	for i := range t.upstreams {
		o := &t.upstreams[i]
		if o.base == u.base && o.key == u.key && o.dialect == u.dialect && slices.Equal(o.lines, u.lines) {
			return o
		}
		if o.name == u.name || strings.HasPrefix(o.name, u.name+"-") && strings.Trim(o.name[len(u.name)+1:], "0123456789") == "" {
			taken++
		}
	}
	if taken > 0 {
		u.name = fmt.Sprintf("%s-%d", u.name, taken+1)
	}
	t.upstreams = append(t.upstreams, *u)
	return &t.upstreams[len(t.upstreams)-1]
}

func withVersion(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Path != "" || strings.Contains(base, "${") {
		return base
	}
	return base + "/v1"
}

// azureBase is the resource of an address that may name a deployment.
func azureBase(base string) string {
	if host, _, ok := strings.Cut(strings.TrimPrefix(base, "https://"), "/openai"); ok {
		return base[:len(base)-len(strings.TrimPrefix(base, "https://"))] + host
	}
	return base
}

// awsParams are a Bedrock entry's region and keys.
type awsParams struct{ region, access, secret, session, profile string }

func awsOf(p group) awsParams {
	return awsParams{variables(p.text("aws_region_name")), variables(p.text("aws_access_key_id")), variables(p.text("aws_secret_access_key")),
		variables(p.text("aws_session_token")), variables(p.text("aws_profile_name"))}
}

func (a awsParams) line(anthropic bool, key *string) string {
	words := []string{"region: " + quoted(a.region)}
	if anthropic {
		words = append(words, "api: anthropic")
	}
	switch {
	case *key != "":
	case a.profile != "":
		words = append(words, `credentials_file: "${HOME}/.aws/credentials"`, "profile: "+quoted(a.profile))
	default:
		words = append(words, "access_key: "+quoted(cmp.Or(a.access, "${AWS_ACCESS_KEY_ID}")),
			"secret_key: "+quoted(cmp.Or(a.secret, "${AWS_SECRET_ACCESS_KEY}")))
		if a.session != "" {
			words = append(words, "session_token: "+quoted(a.session))
		}
	}
	return "aws: { " + strings.Join(words, ", ") + " }"
}

// googleParams are a Vertex entry's project, place and credentials.
type googleParams struct{ project, location, credentials string }

func googleOf(p group) googleParams {
	return googleParams{variables(p.text("vertex_project")), variables(p.text("vertex_location")), variables(p.text("vertex_credentials"))}
}

func (g googleParams) line(claude bool) (line, missing string) {
	if strings.HasPrefix(g.credentials, "{") {
		return "", "its credentials stand in the file; write them to a file of their own and name that in vertex_credentials"
	}
	words := []string{"project: " + quoted(cmp.Or(g.project, "${VERTEXAI_PROJECT}")), "location: " + quoted(cmp.Or(g.location, "global"))}
	if claude {
		words = append(words, "publisher: anthropic")
	}
	words = append(words, "key_file: "+quoted(cmp.Or(g.credentials, "${GOOGLE_APPLICATION_CREDENTIALS}")))
	return "google: { " + strings.Join(words, ", ") + " }", ""
}

// wildcard carries over an entry such as openai/*.
func (t *litellm) wildcard(at, name, provider, model string, u *upstream) {
	v := prices.VendorNamed(provider)
	if v == nil || v.BaseURL == "" || model != "*" || len(t.list.Of(provider)) == 0 {
		t.note("%s is left out: %s/%s stands for models whose prices are not known; write each model", at, provider, model)
		t.unused(u)
		return
	}
	id := provider + "/*"
	if name != id {
		t.note("%s: clients must write %s/NAME", at, provider)
	}
	for i := range t.models {
		if t.models[i].id == id {
			t.models[i].targets = append(t.models[i].targets, target{upstream: u.name})
			return
		}
	}
	t.models = append(t.models, model1(id, v, u))
}

func model1(id string, v *prices.Vendor, u *upstream) model {
	return model{id: id, vendor: v, comment: []string{"All models of " + v.Title + " in the list of prices; prices.margin says what is added."},
		targets: []target{{upstream: u.name}}}
}

// unused takes an upstream away again that no target has.
func (t *litellm) unused(u *upstream) {
	for i := range t.models {
		if slices.ContainsFunc(t.models[i].targets, func(o target) bool { return o.upstream == u.name }) {
			return
		}
	}
	t.upstreams = slices.DeleteFunc(t.upstreams, func(o upstream) bool { return o.name == u.name })
}

var idExpected = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)

// add adds a target to the model of an entry.
func (t *litellm) add(at, name, provider, modelName string, u *upstream, params, info group) {
	if !idExpected.MatchString(name) {
		fixed := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9._:/@+-]+`).ReplaceAllString(name, "-"), "-._:/@+")
		if !idExpected.MatchString(fixed) {
			t.note("%s is left out: %q cannot be the id of a model", at, name)
			return
		}
		t.note("%s: the id is %s", at, fixed)
		name = fixed
	}
	k, known := t.known(provider, modelName, params, info)
	if k.Unsold != "" && k.Context == 0 {
		t.note("%s is left out: %s (config/README.md has recipes for pictures, speech and transcriptions)", at, k.Unsold)
		t.unused(u)
		return
	}
	weight, order := params.whole("weight"), params.whole("order")
	if params.number("rpm") > 0 || params.number("tpm") > 0 || info.number("rpm") > 0 || info.number("tpm") > 0 {
		t.note("%s: rpm and tpm of a deployment are not carried over; weight: shares requests among targets, and a 429 goes on to the next one", at)
	}
	_, _, _, _ = params.take("rpm"), params.take("tpm"), params.take("max_retries"), params.take("drop_params")
	for _, key := range params.rest() {
		reason := "clients set what they need"
		if strings.Contains(key, "budget") {
			reason = "accounts and keys have limits, models have none"
		}
		t.note("%s: litellm_params.%s is not carried over: %s", at, key, reason)
	}
	to := target{upstream: u.name, model: modelName, weight: int(min(weight, 1000)), priority: int(min(max(order-1, 0), 1000))}
	for i := range t.models {
		m := &t.models[i]
		if m.id != name {
			continue
		}
		if slices.ContainsFunc(m.targets, func(o target) bool { return o.upstream == to.upstream && o.model == to.model }) {
			return
		}
		if m.known.Embedding != k.Embedding {
			t.note("%s is left out: models of that name are of another type", at)
			return
		}
		m.targets = append(m.targets, to)
		if known {
			m.known = joint(&m.known, &k)
		}
		return
	}
	one := model{id: name, vendor: prices.VendorNamed(provider), known: k, comment: remarks(&k, t.now), targets: []target{to}}
	if !known {
		in, out, _ := strings.Cut(t.unknown, "/")
		one.price = "{ input: " + in + ", output: " + out + " }"
		if k.Embedding {
			one.price = "{ input: " + in + " }"
		}
		one.comment = append(one.comment, "SET THE PRICE: it is in neither the file nor the list of prices. This one is --unknown-price.")
		t.note("%s: no price is known; %s stands there", at, t.unknown)
	}
	if k.Context == 0 && !k.Embedding {
		one.known.Context = unknownContext
		one.comment = append(one.comment, "SET THE CONTEXT: its size is in neither the file nor the list.")
		t.note("%s: the size of the context is not known; %d stands there", at, unknownContext)
	}
	t.models = append(t.models, one)
}

// known joins the facts of the file and of the list about a model; the file's own hold.
func (t *litellm) known(provider, name string, params, info group) (prices.Model, bool) {
	var k prices.Model
	base := info.text("base_model")
	for _, try := range []string{base, name} {
		vendor, rest := provider, try
		if p, r, ok := strings.Cut(try, "/"); ok && prices.VendorNamed(p) != nil {
			vendor, rest = p, r
		}
		for _, n := range []string{rest, rest[strings.LastIndex(rest, "/")+1:]} {
			if m := t.list.Find(vendor, n); m != nil && k.Name == "" && n != "" {
				k = *m
			}
		}
	}
	if mode := info.text("mode"); mode == "embedding" {
		k.Embedding = true
	}
	cost := func(key string) *big.Rat {
		text := cmp.Or(params.text(key), info.text(key))
		r, ok := prices.ParseCost(strings.ReplaceAll(text, "_", ""))
		_ = info.take(key)
		if !ok {
			return nil
		}
		return r
	}
	in, out := cost("input_cost_per_token"), cost("output_cost_per_token")
	read, write := cost("cache_read_input_token_cost"), cost("cache_creation_input_token_cost")
	if in != nil && in.Sign() > 0 && (k.Embedding || out != nil && out.Sign() > 0) {
		k.Price, k.Long = prices.Price{Input: in, Output: out, CacheRead: positive(read), CacheWrite: positive(write)}, nil
	} else if in != nil || out != nil {
		k.Price.Input = cmp.Or(positive(in), k.Price.Input)
		k.Price.Output = cmp.Or(positive(out), k.Price.Output)
	}
	if n := cmp.Or(info.whole("max_input_tokens"), info.whole("max_tokens")); n > 0 {
		k.Context = min(n, 100_000_000)
	}
	if n := info.whole("max_output_tokens"); n > 0 {
		k.Output = n
	}
	k.Tools = k.Tools || isTrue(info.text("supports_function_calling"))
	k.Vision = k.Vision || isTrue(info.text("supports_vision"))
	k.Schema = k.Schema || isTrue(info.text("supports_response_schema"))
	k.Reasons = k.Reasons || isTrue(info.text("supports_reasoning"))
	priced := k.Price.Input != nil && (k.Embedding || k.Price.Output != nil)
	if k.Long != nil && k.Long.Above >= k.Context {
		k.Long = nil
	}
	return k, priced
}

func positive(r *big.Rat) *big.Rat {
	if r == nil || r.Sign() == 0 {
		return nil
	}
	return r
}

// joint is the set of abilities that two deployments of one model share, at the higher
// price.
func joint(a, b *prices.Model) prices.Model {
	m := *a
	if b.Context > 0 {
		m.Context = min(a.Context, b.Context)
	}
	if b.Output > 0 && a.Output > 0 {
		m.Output = min(a.Output, b.Output)
	}
	m.Tools, m.Vision, m.Files, m.Audio, m.Video = a.Tools && b.Tools, a.Vision && b.Vision, a.Files && b.Files, a.Audio && b.Audio, a.Video && b.Video
	m.Schema, m.Reasons = a.Schema && b.Schema, a.Reasons && b.Reasons
	m.Efforts = slices.DeleteFunc(slices.Clone(a.Efforts), func(e string) bool { return !slices.Contains(b.Efforts, e) })
	m.Price = prices.Highest(a.Price, b.Price)
	if b.Long != nil && (m.Long == nil || b.Long.Price.Input.Cmp(m.Long.Price.Input) > 0) {
		m.Long = b.Long
	}
	return m
}

// finish gives models their aliases, and the margin to the entries for all models of a vendor.
func (t *litellm) finish() {
	for i := range t.models {
		m := &t.models[i]
		for _, alias := range slices.Sorted(slices.Values(t.aliases[m.id])) {
			if idExpected.MatchString(alias) && !slices.ContainsFunc(t.models, func(o model) bool { return o.id == alias }) {
				m.alias = append(m.alias, alias)
			}
		}
		delete(t.aliases, m.id)
	}
	for of := range t.aliases {
		t.note("router_settings.model_group_alias: there is no model %s", of)
	}
	t.chooseDefault()
	if slices.ContainsFunc(t.models, func(m model) bool { return strings.HasSuffix(m.id, "/*") }) {
		t.blocks = append(t.blocks, "prices: { margin: "+strings.TrimRight(strings.TrimRight(t.margin.FloatString(4), "0"), ".")+" }")
	}
}
