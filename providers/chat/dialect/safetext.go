package dialect

import (
	"regexp"
	"strings"
	"unicode"
)

// maxShown is how much of an upstream's text a client gets to see, in bytes.
const maxShown = 500

const removed = "[removed]"

// Texts that must never be shown: links, mail addresses, network addresses, host
// names, keys, and ids of the operator's accounts.
var (
	secretWords = regexp.MustCompile(`(?i)` + strings.Join([]string{
		`\b[a-z][a-z0-9+.-]*://\S*`,
		`\bunix:\S+`,
		`\bwww\.\S+`,
		`\S+@\S+\.\S+`,
		`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`,
		`\[[0-9a-f:]*:[0-9a-f:]+\](?::\d+)?`,
		`\b(?:bearer|authorization:?|x-api-key:?|api-key:?)\s+\S+`,
		`\b(?:sk|pk|rk|gsk|xai|key|org|orgs|proj|project|acct|account|user|team|tenant|workspace|wrkspc|req|resource|deployment)[-_][a-z0-9*_-]{6,}`,
		`\b[a-z0-9*_+/=-]*\*{3,}[a-z0-9*_+/=-]*`,
		`\b(?:arn|projects|subscriptions|accounts|organizations)[:/]\S+`,
	}, "|"))
	// A long word of letters and digits is a key or an id.
	longWord = regexp.MustCompile(`\b[A-Za-z0-9+/_-]{24,}={0,2}`)
	dotted   = regexp.MustCompile(`\b[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+\.?(?::\d+)?(?:/[^\s"'` + "`" + `)]*)?`)
	hostPort = regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9-]*:\d{2,5}\b`)
	digit    = regexp.MustCompile(`\d`)
	requests = regexp.MustCompile(
		`^(?:messages|tools|tool_choice|response_format|stream_options|reasoning|text|input|metadata|output_config|thinking|system|body|function|parameters|json_schema|e\.g|i\.e)\.`)
)

// SafeText is the part of an upstream's words that a client may see: without
// hosts, addresses, keys and account ids, on one line. A word that cannot be told apart
// from a host name is removed too.
func SafeText(text string) string {
	if len(text) > 8*maxShown {
		text = text[:8*maxShown]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return -1
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = secretWords.ReplaceAllString(text, removed)
	text = longWord.ReplaceAllStringFunc(text, func(w string) string {
		if digit.MatchString(w) {
			return removed
		}
		return w
	})
	text = dotted.ReplaceAllStringFunc(text, hideHost)
	text = hostPort.ReplaceAllString(text, removed)
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return text
}

// hideHost keeps dotted words that are numbers, versions of models or paths of
// request members, and removes all others.
func hideHost(w string) string {
	word := strings.TrimSuffix(w, ".")
	if requests.MatchString(word+".") && !strings.Contains(word, "/") && !strings.Contains(word, ":") {
		return w
	}
	labels := strings.Split(word, ".")
	number := true
	for i := 1; i < len(labels); i++ {
		before, after := labels[i-1], labels[i]
		number = number && before != "" && after != "" && isDigit(before[len(before)-1]) && isDigit(after[0])
	}
	if number {
		return w // 0.7, gpt-4.1
	}
	return removed
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
