package messages

import (
	"slices"
	"strings"
)

// betas are the features in anthropic-beta that are passed on to upstreams that speak Messages:
// they cost nothing besides the tokens, and reach nothing of the operator's account.
// Others are left out: a body's members for them are refused where they are not known.
var betas = []string{
	"advanced-tool-use-2025-11-20", "claude-code-20250219", "context-management-2025-06-27", "effort-2025-11-24",
	"extended-cache-ttl-2025-04-11",
	"fine-grained-tool-streaming-2025-05-14", "interleaved-thinking-2025-05-14", systemBeta, toolsBeta,
	"model-context-window-exceeded-2025-08-26", "output-128k-2025-02-19", "pdfs-2024-09-25",
	"prompt-caching-2024-07-31", "prompt-caching-scope-2026-01-05", "structured-outputs-2025-11-13",
	"task-budgets-2026-03-13",
	"thinking-display-updates-2026-08-18", "thinking-token-count-2026-05-13", "token-counting-2024-11-01",
	"token-efficient-tools-2025-02-19",
}

// Either of these allows messages of the role system behind the first one. The newer one
// has tools in them, too, which are not sold here.
const (
	systemBeta = "mid-conversation-system-2026-04-07"
	toolsBeta  = "mid-conversation-tool-changes-2026-07-01"
)

// SetBetas takes the allowed features from the values of the header anthropic-beta. All
// are words of our own list.
func (f *Form) SetBetas(values [][]byte) {
	var allowed []string
	allow := func(word string) bool {
		at := slices.Index(betas, word)
		if at >= 0 && !slices.Contains(allowed, betas[at]) {
			allowed = append(allowed, betas[at])
		}
		return at >= 0
	}
	for _, value := range values {
		for word := range strings.SplitSeq(string(value), ",") {
			if word = strings.TrimSpace(word); word != "" && !allow(word) {
				f.stripped = true
			}
		}
	}
	if f.instructed && !slices.Contains(allowed, toolsBeta) {
		allow(systemBeta) // its clients may leave the header to us
	}
	slices.Sort(allowed)
	f.betas = strings.Join(allowed, ",")
}

// Instructs says that a message has the role system.
func (f *Form) Instructs() bool { return f.instructed }

// Beta is the value of the header anthropic-beta for an upstream; empty: none. stripped
// says that the client's names more than that.
func (f *Form) Beta() (allowed string, stripped bool) { return f.betas, f.stripped }
