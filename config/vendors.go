package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// vendor is a well-known host and its dialects.
type vendor struct {
	host     *regexp.Regexp
	dialects []string // the usual one first
	// openai is a part of the path below which it speaks dialect openai, too; empty: nowhere.
	openai string
	// words precede names of its models at other gateways, as in openai/gpt-4o.
	words []string
	env   string // the usual variable of its key
}

var vendors = []vendor{
	{regexp.MustCompile(`^api\.openai\.com$`), []string{"openai"}, "", []string{"openai"}, "OPENAI_API_KEY"},
	{regexp.MustCompile(`^api\.anthropic\.com$`), []string{"anthropic"}, "/", []string{"anthropic"}, "ANTHROPIC_API_KEY"},
	{regexp.MustCompile(`^generativelanguage\.googleapis\.com$`), []string{"gemini"}, "/openai", []string{"gemini", "google"},
		"GEMINI_API_KEY"},
	{regexp.MustCompile(`\.(openai|cognitiveservices)\.azure\.com$`), []string{"azure"}, "/openai/v1", []string{"azure"}, ""},
	{regexp.MustCompile(`^bedrock-(runtime|mantle)\.`), []string{"bedrock"}, "/v1", []string{"bedrock"}, ""},
	{regexp.MustCompile(`(^|-|\.)aiplatform\.googleapis\.com$`), []string{"vertex"}, "/endpoints/", []string{"vertex_ai"}, ""},
	{regexp.MustCompile(`^api\.elevenlabs\.io$`), []string{"elevenlabs"}, "", []string{"elevenlabs"}, "ELEVENLABS_API_KEY"},
	{regexp.MustCompile(`^queue\.fal\.run$`), []string{"fal"}, "", nil, "FAL_KEY"},
	{regexp.MustCompile(`^api\.replicate\.com$`), []string{"replicate"}, "", []string{"replicate"}, "REPLICATE_API_TOKEN"},
	{regexp.MustCompile(`^api\.stability\.ai$`), []string{"stability"}, "", []string{"stability"}, "STABILITY_API_KEY"},
	{regexp.MustCompile(`^api\.mistral\.ai$`), []string{"openai"}, "", []string{"mistral"}, "MISTRAL_API_KEY"},
	{regexp.MustCompile(`^api\.groq\.com$`), []string{"openai"}, "", []string{"groq"}, "GROQ_API_KEY"},
	{regexp.MustCompile(`^api\.x\.ai$`), []string{"openai", "anthropic"}, "", []string{"xai"}, "XAI_API_KEY"},
	{regexp.MustCompile(`^api\.deepseek\.com$`), []string{"openai", "anthropic"}, "", []string{"deepseek"}, "DEEPSEEK_API_KEY"},
	{regexp.MustCompile(`^api\.together\.(xyz|ai)$`), []string{"openai"}, "", []string{"together_ai"}, "TOGETHER_API_KEY"},
	{regexp.MustCompile(`^api\.fireworks\.ai$`), []string{"openai", "anthropic"}, "", []string{"fireworks_ai"}, "FIREWORKS_API_KEY"},
	{regexp.MustCompile(`^openrouter\.ai$`), []string{"openai", "anthropic"}, "", []string{"openrouter"}, "OPENROUTER_API_KEY"},
}

// vendorOf is the vendor of an upstream's host, nil for others.
func vendorOf(u *Upstream) (*vendor, *url.URL) {
	at, err := url.Parse(u.BaseURL)
	if err != nil {
		return nil, nil
	}
	host := strings.ToLower(at.Hostname())
	i := slices.IndexFunc(vendors, func(one vendor) bool { return one.host.MatchString(host) })
	if i < 0 {
		return nil, at
	}
	return &vendors[i], at
}

// vendor checks that a well-known host is asked in a dialect that it speaks. It reports
// whether that is so.
func (v *validator) vendor(path string, u *Upstream) bool {
	known, at := vendorOf(u)
	if _, spoken := u.speaks(); known == nil || !spoken || v.bad[path+".base_url"] ||
		slices.Contains(known.dialects, u.Dialect) {
		return true
	}
	usual := known.dialects[0]
	both := known.openai != "" && u.Dialect == "openai"
	switch {
	case both && usual == "gemini": // wholeBaseURL looks at its path
	case both && strings.Contains(at.Path+"/", known.openai):
		if !v.has(path+".dialect") && usual == "anthropic" {
			v.doubt(path+".base_url", "%s is asked in dialect openai, which loses thinking, caching and /messages; expected "+
				"dialect: anthropic, or dialect: openai if that is meant", at.Hostname())
		}
	default:
		also := ""
		if both {
			also = fmt.Sprintf(", or an address with %s for dialect openai", known.openai)
		}
		v.wrong(path+".base_url", "%s does not speak dialect %s; expected dialect: %s%s", at.Hostname(), u.Dialect, usual, also)
		v.misled[u] = true
		return false
	}
	return true
}

// vendorModel refuses a name that begins with the word of the vendor, as LiteLLM and
// OpenRouter write it: the vendor itself does not know it.
func (v *validator) vendorModel(path string, t *Target, u *Upstream) {
	known, _ := vendorOf(u)
	word, name, ok := strings.Cut(t.Model, "/")
	if known == nil || !ok || !slices.Contains(known.words, word) || word == "openrouter" && !strings.Contains(name, "/") {
		return
	}
	if at := path + ".model"; v.has(at) {
		path = at
	}
	v.wrong(path, "the vendor calls no model %s, with its own name before it; expected model: %s", quote(t.Model), clip(name))
}

var localNames = []string{".local", ".internal", ".lan", ".home", ".corp", ".intranet", ".localdomain", ".svc", ".test",
	".invalid", ".localhost", ".private", ".docker", ".arpa", ".ts.net"}

// public says that a host is somewhere in the internet, as far as its name tells.
func public(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		carrier := netip.MustParsePrefix("100.64.0.0/10")
		return ip.IsGlobalUnicast() && !ip.IsPrivate() && !carrier.Contains(ip)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	near := func(end string) bool { return strings.HasSuffix(host, end) }
	return strings.Contains(host, ".") && !slices.ContainsFunc(localNames, near)
}
