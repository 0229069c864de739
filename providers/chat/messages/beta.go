package messages

import (
	"slices"
	"strings"
)

// betas are the features in anthropic-beta that are passed on to who speaks Messages:
// they cost nothing beside the tokens, and reach nothing of the operator's account.
// Others are left out: what a body says under them is refused where it is not known.
var betas = []string{
	"claude-code-20250219", "context-management-2025-06-27", "effort-2025-11-24", "extended-cache-ttl-2025-04-11",
	"fine-grained-tool-streaming-2025-05-14", "interleaved-thinking-2025-05-14",
	"model-context-window-exceeded-2025-08-26", "output-128k-2025-02-19", "pdfs-2024-09-25",
	"prompt-caching-2024-07-31", "structured-outputs-2025-11-13", "task-budgets-2026-03-13",
	"thinking-display-updates-2026-08-18", "thinking-token-count-2026-05-13", "token-counting-2024-11-01",
	"token-efficient-tools-2025-02-19",
}

// AllowBetas is what may be passed on of the values of the header anthropic-beta. All
// of it are words of our own list.
func AllowBetas(values [][]byte) string {
	var allowed []string
	for _, value := range values {
		for word := range strings.SplitSeq(string(value), ",") {
			at := slices.Index(betas, strings.TrimSpace(word))
			if at >= 0 && !slices.Contains(allowed, betas[at]) {
				allowed = append(allowed, betas[at])
			}
		}
	}
	slices.Sort(allowed)
	return strings.Join(allowed, ",")
}
