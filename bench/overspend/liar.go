package overspend

import (
	"fmt"
	"slices"
	"strings"
)

// Liar is a way in which an upstream hides or misstates the cost of an answer.
type Liar struct {
	Name   string
	stream string // scenario words for streams; "-": does not apply
	whole  string // for whole answers; "": as stream
	// Only: the dialects that have this lie; "": every chat endpoint.
	only string
	// embeddings: scenario words for embeddings; "": does not apply.
	embeddings string
	// sound: scenario words for transcriptions; "": does not apply.
	sound string
	// speech and job: scenario words for speech, and for music and videos.
	speech string
	job    string
	silent bool // no usage reports its hidden tokens
	breaks bool // the result is of no use to its customer, who pays nothing; the upstream is paid all the same
}

// Liars are all lies, the honest upstream first. Lengths are above a slice of
// 64 tokens and below the cap of 2,000 that the requests name.
var Liars = []Liar{
	{Name: "honest", stream: "tokens=200", embeddings: "tokens=1", sound: "tokens=1",
		speech: "tokens=1", job: "polls=2"},
	{Name: "uses_cap", stream: "tokens=3000 think_ms=20"},
	{Name: "hidden_inside", stream: "tokens=40 hidden=1500 think_ms=20"},
	{Name: "hidden_beside", stream: "tokens=40 hidden=1500 think_ms=20 hidden_in=beside", only: "openai gemini"},
	{Name: "hidden_total", stream: "tokens=40 hidden=1500 think_ms=20 hidden_in=total", only: "openai gemini"},
	{Name: "hidden_nowhere", stream: "tokens=40 hidden=1500 think_ms=20 hidden_in=nowhere", silent: true},
	{Name: "hidden_no_usage", stream: "tokens=40 hidden=1500 think_ms=20 usage=none", silent: true},
	{Name: "thought_content", stream: "tokens=300 reasoning=250 usage=none", only: "openai"},
	{Name: "thought_reasoning", stream: "tokens=300 reasoning=250 thought_as=reasoning usage=none", only: "openai"},
	{Name: "thought_thinking", stream: "tokens=300 reasoning=250 thought_as=thinking usage=none"},
	{Name: "thought_redacted", stream: "tokens=300 reasoning=250 thought_as=redacted", only: "anthropic"},
	{Name: "usage_none", stream: "tokens=200 usage=none", embeddings: "usage=none", sound: "heard=none"},
	{Name: "usage_zero", stream: "tokens=200 usage=zero", embeddings: "usage=zero", sound: "heard=0"},
	{Name: "usage_negative", stream: "tokens=200 usage=negative", embeddings: "usage=negative", sound: "heard=-7"},
	{Name: "usage_late", stream: "tokens=200 usage=late"},
	{Name: "usage_after_done", stream: "tokens=200 usage=afterdone"},
	{Name: "usage_twice", stream: "tokens=200 usage=twice"},
	{Name: "usage_contradicts", stream: "tokens=200 usage=contradict"},
	{Name: "usage_less", stream: "tokens=200 usage=less", embeddings: "usage=less", sound: "heard=0.5"},
	{Name: "usage_total_only", stream: "tokens=200 usage=totalonly", only: "openai gemini"},
	{Name: "usage_early", stream: "tokens=200 usage=early"},
	{Name: "usage_over", stream: "tokens=200 usage=over", embeddings: "usage=over", sound: "heard=8"},
	{Name: "usage_huge", stream: "tokens=200 usage=huge", embeddings: "usage=huge", sound: "heard=1e15"},
	{Name: "said_array", stream: "tokens=200 said_in=array usage=none", only: "openai"},
	{Name: "said_function_call", stream: "tokens=200 said_in=function_call usage=none", only: "openai"},
	{Name: "said_audio", stream: "tokens=200 said_in=audio usage=none", only: "openai"},
	{Name: "said_refusal", stream: "tokens=200 said_in=refusal usage=none", only: "openai"},
	{Name: "said_unknown", stream: "tokens=200 said_in=unknown usage=none"},
	{Name: "draws", stream: "tokens=200 draws=1000000", only: "openai gemini"},
	{Name: "draws_silently", stream: "tokens=200 draws=1000000 usage=none", only: "openai gemini"},
	{Name: "never_ending", stream: "tokens=1000000000 ignore_cap=1", whole: "endless=1"},
	{Name: "sound_breaks_off", only: "speech", speech: "cut=rst cut_after=6000", breaks: true},
	{Name: "sound_is_cut_short", only: "speech", speech: "truncate=1", breaks: true},
	{Name: "sound_never_ends", only: "speech", speech: "endless=1", breaks: true},
	{Name: "sound_is_a_page", only: "speech", speech: "html=1", breaks: true},
	{Name: "sound_is_words", only: "speech", speech: "wrong=text", breaks: true},
	{Name: "sound_is_an_error", only: "speech", speech: "error_event=1", breaks: true},
	{Name: "sound_is_nothing", only: "speech", speech: "empty=1", breaks: true},
	{Name: "job_fails", only: "job", job: "job=fail"},
	{Name: "job_refused_late", only: "job", job: "job=fail kind=policy polls=2"},
	{Name: "job_forgotten", only: "job", job: "job=forget"},
	{Name: "job_stands_oddly", only: "job", job: "job=odd"},
	{Name: "job_cannot_be_asked_for", only: "job", job: "at=status status=500"},
	{Name: "job_stands_in_two_ways", only: "job", job: "job=twice polls=2", breaks: true},
	{Name: "job_leads_elsewhere", only: "job", job: "job=foreign polls=2"},
	{Name: "job_made_twice", only: "job", job: "job=double", breaks: true},
	{Name: "job_swallowed", only: "job", job: "job=swallow", breaks: true},
	{Name: "job_never_ends", only: "job", job: "job=stuck", breaks: true},
	{Name: "result_is_words", only: "job", job: "job=wrongtype", breaks: true},
	{Name: "result_never_ends", only: "job", job: "endless=1", breaks: true},
	{Name: "result_is_cut_short", only: "job", job: "truncate=1", breaks: true},
	{Name: "result_is_elsewhere", only: "job", job: "link=http%3A%2F%2F169.254.169.254%2Fclip", breaks: true},
	{Name: "cap_ignored", stream: "tokens=4000 ignore_cap=1"},
	{Name: "cap_ignored_silently", stream: "tokens=4000 ignore_cap=1 usage=none"},
	{Name: "cap_ignored_hidden", stream: "tokens=40 hidden=9000 think_ms=20 ignore_cap=1"},
}

// words are the scenario of this lie at an endpoint; ok: it exists there.
func (l *Liar) words(e *Endpoint) (words string, ok bool) {
	switch {
	case e.Dialect == "":
		return "tokens=1", l.Name == "honest"
	case e.Dialect == "responses": // it is the client that lies
		return "tokens=200 hosted=1", l.Name == "honest"
	case e.Dialect == "sound":
		return l.sound, l.sound != ""
	case e.Dialect == "embeddings":
		return l.embeddings, l.embeddings != ""
	case e.Dialect == "speech":
		return l.speech, l.speech != ""
	case e.job():
		return l.job, l.job != ""
	case l.only != "" && !slices.Contains(strings.Fields(l.only), e.Dialect):
		return "", false
	case !e.Stream && l.whole != "":
		return l.whole, true
	}
	return l.stream, true
}

// LiarsNamed finds lies by name; no names: all.
func LiarsNamed(names []string) ([]Liar, error) {
	return named("liar", names, Liars, func(l Liar) string { return l.Name })
}

func named[T any](what string, names []string, all []T, name func(T) string) ([]T, error) {
	if len(names) == 0 {
		return all, nil
	}
	var list []T
	for _, want := range names {
		found := false
		known := make([]string, len(all))
		for i, t := range all {
			if known[i] = name(t); known[i] == want {
				list, found = append(list, t), true
			}
		}
		if !found {
			return nil, fmt.Errorf("cannot use the %s %q: known are %s", what, want, strings.Join(known, ", "))
		}
	}
	return list, nil
}
