package dialect

import (
	"strconv"
	"sync"

	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Usage is the use of one answer, in tokens. Cached and CacheWrite are parts of
// Prompt, Reasoning is a part of Completion.
type Usage struct {
	Prompt, Cached, CacheWrite, Completion, Reasoning int64
	// Total is the upstream's total_tokens, 0: it told none.
	Total int64
	// Claimed is how many tokens the upstream reported beyond those that the request
	// allowed; they are in no other count.
	Claimed   int64
	Sources   int64 // that the upstream found for the answer
	Seen      bool  // the upstream reported it
	Estimated bool  // we counted, wholly or in part
}

// Bound makes every count at least 0 and no part larger than its whole.
func (u *Usage) Bound() {
	u.Prompt = min(max(u.Prompt, 0), jsontext.MaxCount)
	u.Completion = min(max(u.Completion, 0), jsontext.MaxCount)
	u.Cached = min(max(u.Cached, 0), u.Prompt)
	u.CacheWrite = min(max(u.CacheWrite, 0), u.Prompt-u.Cached)
	u.Reasoning = min(max(u.Reasoning, 0), u.Completion)
	u.Sources = min(max(u.Sources, 0), jsontext.MaxCount)
}

// UsageShape is the usage object of chat completions and embeddings, with the
// spellings that are met in the field.
var UsageShape = nested(below{"prompt_tokens_details": promptDetails, "completion_tokens_details": completionDetails},
	"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details",
	"cached_tokens",           // Moonshot
	"prompt_cache_hit_tokens", // DeepSeek
	"cache_read_input_tokens", // proxies before Anthropic
	"cache_write_tokens", "cache_creation_input_tokens", "reasoning_tokens",
	"num_sources_used") // xAI

var (
	promptDetails = names("cached_tokens", "cache_write_tokens", "cache_creation_input_tokens",
		"cache_creation_tokens")
	completionDetails = names("reasoning_tokens")
)

const (
	usagePrompt = iota
	usageCompletion
	usageTotal
	_ // prompt_tokens_details
	_ // completion_tokens_details
	usageCached
	usageCacheHit
	usageCacheRead
	usageCacheWrite
	usageCacheCreation
	usageReasoning
	usageSources
)

var usageDocs = sync.Pool{New: func() any { return new(scan.Document) }}

// ReadUsage reads a usage object. It reports false, and leaves u alone, when
// raw is not a usage: null, not an object, or without any count.
func ReadUsage(raw []byte, u *Usage) bool {
	doc := usageDocs.Get().(*scan.Document)
	defer usageDocs.Put(doc)
	return doc.Skim(raw, UsageShape) == nil && UsageIn(raw, doc, -1, u)
}

// UsageIn is ReadUsage for the object Fields[at] of a scan in which it is
// under UsageShape; at is -1 when it is the whole body.
func UsageIn(body []byte, doc *scan.Document, at int32, u *Usage) bool {
	var n Usage
	total, seen := int64(-1), false
	from, to := int32(0), int32(len(doc.Fields))
	if at >= 0 {
		from, to = at+1, doc.Fields[at].Next
	}
	for i := from; i < to; i++ {
		f := &doc.Fields[i]
		if f.Kind != scan.Number {
			continue
		}
		v, ok := jsontext.ReadCount(f.Raw(body))
		if !ok {
			continue
		}
		switch f.Shape {
		case promptDetails:
			if f.Name == 0 {
				n.Cached = max(n.Cached, v)
			} else {
				n.CacheWrite = max(n.CacheWrite, v)
			}
			continue
		case completionDetails:
			n.Reasoning = max(n.Reasoning, v)
			continue
		}
		switch f.Name {
		case usagePrompt:
			n.Prompt, seen = v, true
		case usageCompletion:
			n.Completion, seen = v, true
		case usageTotal:
			total = v
		case usageCached, usageCacheHit, usageCacheRead:
			n.Cached = max(n.Cached, v)
		case usageCacheWrite, usageCacheCreation:
			n.CacheWrite = max(n.CacheWrite, v)
		case usageReasoning:
			n.Reasoning = max(n.Reasoning, v)
		case usageSources:
			n.Sources = v
		}
	}
	if !seen && total < 0 {
		return false
	}
	n.Total, n.Seen = max(0, total), true
	if n.Prompt > 0 {
		// xAI reports reasoning besides the completion, Google thoughts in the
		// total alone.
		n.Completion = max(n.Completion, n.Total-n.Prompt)
	}
	n.Bound()
	*u = n
	return true
}

// AppendUsage appends the usage member's object (addendum 5.6).
func AppendUsage(dst []byte, u *Usage) []byte {
	number := func(name string, v int64) {
		dst = strconv.AppendInt(append(dst, name...), v, 10)
	}
	number(`{"prompt_tokens":`, u.Prompt)
	number(`,"completion_tokens":`, u.Completion)
	number(`,"total_tokens":`, u.Prompt+u.Completion)
	number(`,"prompt_tokens_details":{"cached_tokens":`, u.Cached)
	number(`,"cache_creation_input_tokens":`, u.CacheWrite)
	number(`},"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning)
	return append(dst, "}}"...)
}
