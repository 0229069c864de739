package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// DropDefault in a `drop:` list stands for the built-in list.
const DropDefault = "default"

// DropCacheTTL is the entry for the lifetimes of cached prompts, wherever a
// body has cache_control: an hour costs an operator more to write than the
// usual five minutes, which the model's price is for.
const DropCacheTTL = "cache_control.ttl"

// costly are members of a chat body that change an operator's cost of a request, or its bound,
// behind the back of the price: dearer service, other models, searches, voices, more output than
// was asked for.
var costly = []string{
	"service_tier", "speed", "priority", "background", "deferred", "inference_geo",
	"models", "route", "provider", "plugins", "preset", "transforms",
	"web_search", "web_search_options", "search_parameters", "data_sources",
	"modalities", "audio", "prediction", "functions", "function_call",
	"thinking", "best_of", "use_beam_search", "min_tokens", "ignore_eos", "prompt_logprobs", "echo",
	"truncate_prompt_tokens",
	"max_output_tokens", "max_new_tokens", "max_tokens_to_sample", "n_predict",
	"extra_body", DropCacheTTL,
}

// costlyAt are those that one vendor's hosts know besides.
var costlyAt = []struct {
	host    string
	dialect string // whatever the host
	names   []string
}{
	{"openai.azure.com", "azure", []string{"enhancements", "dataSources"}},
	{"generativelanguage.googleapis.com", "", []string{"google", "cached_content", "thinking_config"}},
	{"perplexity.ai", "", []string{"search_mode", "return_images", "return_related_questions", "num_search_results"}},
	{"aliyuncs.com", "", []string{"enable_search", "search_options", "enable_thinking", "thinking_budget",
		"enable_code_interpreter"}},
}

// revealing are members that have an upstream return the prompt, with the messages added before
// the client's own: tokens, texts or the body as it came. Where there are characters, whose
// prompts are not public, they are sent to nobody.
var revealing = []string{"prompt_logprobs", "echo", "echo_last", "raw_output", "return_token_ids",
	"return_prompt_token_ids", "return_prompt_text", "return_hidden_states", "debug"}

// unDroppable are members that the gateway itself reads, prices or writes.
var unDroppable = []string{
	"model", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "n", "tools", "user",
	"reasoning", "reasoning_effort", "fallbacks", "anon_user_id",
}

var dropName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// maxDrops bounds the names of all lists together; the scan of a body guards
// them beside its own.
const maxDrops = 80

// defaultDrops are the members that are not sent to an upstream without drop.
func defaultDrops(u *Upstream) []string {
	if d, _ := u.speaks(); !d.compatible {
		return nil // the others write bodies of their own
	}
	list := costly
	if at, err := url.Parse(u.BaseURL); err == nil {
		for _, h := range costlyAt {
			host := at.Hostname()
			if host == h.host || strings.HasSuffix(host, "."+h.host) || u.Dialect != "" && u.Dialect == h.dialect {
				list = slices.Concat(list, h.names)
			}
		}
	}
	return list
}

// completeDrops puts the list that holds into Drop.
func (u *Upstream) completeDrops(characters bool) {
	var always []string
	if d, _ := u.speaks(); characters && d.compatible {
		always = revealing
	}
	if u.Drop == nil && always == nil {
		u.Drop = defaultDrops(u)
		return
	}
	if u.Drop == nil {
		u.Drop = []string{DropDefault}
	}
	list := slices.Clone(always)
	for _, name := range u.Drop {
		if name == DropDefault {
			list = append(list, defaultDrops(u)...)
		} else {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	u.Drop = slices.Compact(list)
}

// Drops are the names of all upstreams' lists, sorted, each once.
func (c *Config) Drops() []string {
	var list []string
	for i := range c.Upstreams {
		list = append(list, c.Upstreams[i].Drop...)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(name string) bool { return name == DropCacheTTL })
}

func (v *validator) drops(path string, u *Upstream) {
	if !v.has(path + ".drop") {
		return
	}
	if d, known := u.speaks(); known && !d.writes {
		v.wrong(path+".drop", "drop has no meaning for an upstream of dialect %s, which writes no text; "+
			"expected it to be left out", u.Dialect)
		return
	}
	for i, name := range u.Drop {
		at := fmt.Sprintf("%s.drop[%d]", path, i)
		switch {
		case slices.Contains(unDroppable, name):
			v.wrong(path+".drop", "%s is written by the gateway itself; expected other members of a chat request",
				quote(name))
		case !dropName.MatchString(name):
			v.wrong(at, "%s cannot be a member; expected its name, such as service_tier, %s, or default for the "+
				"built-in list", quote(name), DropCacheTTL)
		}
	}
}
