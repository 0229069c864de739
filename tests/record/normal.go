package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	brotli "github.com/molecule-man/go-brrr"
)

// normal takes the values of a single run out of a recording. Its rules are narrow: all
// else is compared byte by byte.
//
//   - Addresses and directories of the run become placeholders.
//   - Identifiers (UUIDs, 32 hexadecimal digits, secrets of keys and their last
//     characters, signed tokens, signatures of wallets, boundaries of forms,
//     cursors, ids of calls of nodes) and the version of the build become a number, in their order of appearance: the same
//     identifier in two places has the same number.
//   - Times within 400 days of the run become a class: a time, or a day relative
//     to the first of the run. Their form stays.
//   - Durations in the members and headers that timed names become a word.
//   - A balance in a head becomes the difference to the one before it, so that a
//     charge that differs is shown once.
//   - The gateway's own requests to a node are left out; of two nodes that take
//     turns none is named; the parts of a form that an upstream gets are sorted.
//   - Remaining and used units of a minute, and the size of a backup, become a word.
//   - Content-Length of a body with any of these becomes <right> when it is
//     right. A compressed body is compared unpacked.
type normal struct {
	rec   *recording
	today string // as the ledger writes it
	names *strings.Replacer
	seen  map[string]string
	next  map[string]int
	told  map[string]int64 // balances, by header
}

func newNormal(r *recording) *normal {
	var pairs []string
	for _, name := range sortedByLength(r.Names) {
		pairs = append(pairs, name, r.Names[name])
	}
	return &normal{rec: r, today: r.Start.UTC().Format("20060102"), names: strings.NewReplacer(pairs...),
		seen: map[string]string{}, next: map[string]int{}, told: map[string]int64{}}
}

// sortedByLength is the longest first, so that no name is taken for its beginning.
func sortedByLength(m map[string]string) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Slice(names, func(i, k int) bool {
		return len(names[i]) > len(names[k]) || len(names[i]) == len(names[k]) && names[i] < names[k]
	})
	return names
}

// identifiers are the random values, with their names; UUIDs and 32 hexadecimal digits
// are found by words. hint is in every text that has one.
var identifiers = []struct {
	class, hint string
	form        *regexp.Regexp // its first group is the value; without one, all of it
}{
	{"jwt", "eyJ", regexp.MustCompile(`eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)},
	{"signature", `"signature"`, regexp.MustCompile(`"signature":"0x([0-9a-f]{130})"`)},
	{"secret", "_KEY_", regexp.MustCompile(`[A-Z0-9]+_(?:INFERENCE|ADMIN)_KEY_([A-Za-z0-9]{30,})`)},
	{"last6", `"last6`, regexp.MustCompile(`"last6(?:Chars)?": ?"([A-Za-z0-9]{6})"`)},
	{"last6", "…", regexp.MustCompile(`…([A-Za-z0-9]{6})\b`)},
	{"fence", "----- ", regexp.MustCompile(`----- ([A-Z2-7]{12})\b`)},
	{"version", "20", regexp.MustCompile(`\b20[0-9]{6}\.[0-9]{6}\b`)},
	{"call", `"jsonrpc"`, regexp.MustCompile(`"id":([0-9]{12,16})\b`)},
	{"cursor", "ursor", regexp.MustCompile(`(?:"nextCursor": ?"|[?&]cursor=|X-Next-Cursor: )([A-Za-z0-9_=-]{16,})`)},
}

// durations are members and headers whose values are how long something took
// or how long it is until something.
var durations = regexp.MustCompile(
	`("(?:took_ms|first_byte_ms|rest_ms|inferenceExecutionTime|total|inferenceDuration|inferencePreprocessingTime|inferenceQueueTime|retry_after|retryAfter)": ?)[0-9.]+|` +
		`(?m:^(?i:Retry-After|X-Ratelimit-Reset-[A-Za-z]+): )[0-9]+`)

var (
	stamps = regexp.MustCompile(
		`^(20[0-9]{2}-[01][0-9]-[0-3][0-9])(?:([T ])([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?)?`)
	uuids = regexp.MustCompile(`(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	dates = regexp.MustCompile(`(?m)^(Date: )[A-Z][a-z]{2}, .*GMT`)
)

// text is a value without those of its run alone.
func (n *normal) text(s string) string {
	s = n.names.Replace(s)
	if strings.Contains(s, "Date: ") {
		s = dates.ReplaceAllString(s, "${1}<date>")
	}
	if strings.Contains(s, "_ms\"") || strings.Contains(s, "Time\"") || strings.Contains(s, "etry") ||
		strings.Contains(s, "atelimit-Reset") || strings.Contains(s, "\"total\"") {
		s = durations.ReplaceAllString(s, "${1}<time>")
	}
	for _, id := range identifiers {
		if strings.Contains(s, id.hint) {
			s = replaceGroup(id.form, s, func(value string) string { return n.number(id.class, value) })
		}
	}
	s = n.words(s)
	if strings.Contains(s, ",API Inference,") {
		s = columns.ReplaceAllString(s, "${1}<time>")
	}
	if strings.Contains(s, `"minute":{`) {
		s = minutes.ReplaceAllString(s, "${1}<count>")
	}
	return s
}

var (
	// columns are how long a request took, in the CSV of usage.
	columns = regexp.MustCompile(`(,API Inference,<id [0-9]+>,)[0-9]+`)
	// minutes are the uses of this minute, which may just have begun.
	minutes = regexp.MustCompile(`("minute":\{"limit":[^,]*,"used":)[0-9]+`)
	// refilled are the remaining tokens of a minute, which come back each moment.
	refilled = regexp.MustCompile(`(?m)^(X-Ratelimit-Remaining-Tokens: )[0-9]+`)
	// sizes are of a backup: how many records share a page is chance.
	sizes = regexp.MustCompile(`(?m)^((?:bytes|rows) +)[0-9]+$`)
)

// words replaces the identifiers and times that are words of their own.
func (n *normal) words(s string) string {
	var b strings.Builder
	from := 0
	for i := 0; i < len(s); {
		if !inWord(s[i]) {
			i++
			continue
		}
		end := i + 1
		for end < len(s) && inWord(s[end]) {
			end++
		}
		word, instead := s[i:end], ""
		switch {
		case len(word) == 32 && isHex(word):
			instead = n.number("id", word)
		case len(word) == 8 && end < len(s) && s[end] == '-' && isHex(word):
			if m := uuids.FindString(s[i:min(len(s), i+40)]); m != "" {
				end, instead = i+len(m), n.number("uuid", strings.ToLower(m))
			}
		case len(word) == 4 && strings.HasPrefix(word, "20") && end < len(s) && s[end] == '-':
			if m := stamps.FindString(s[i:min(len(s), i+40)]); m != "" {
				end, instead = i+len(m), n.stamp(m)
			}
		case word == n.today:
			instead = "<today>"
		case (len(word) == 10 || len(word) == 13 || len(word) == 16 || len(word) == 19) &&
			(word[0] == '1' || word[0] == '2'):
			instead = n.unix(word)
		}
		if instead != "" {
			b.WriteString(s[from:i])
			b.WriteString(instead)
			from = end
		}
		i = end
	}
	return b.String() + s[from:]
}

func inWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

// replaceGroup replaces the first group of each match, or all of it.
func replaceGroup(form *regexp.Regexp, s string, with func(string) string) string {
	var b strings.Builder
	at := 0
	for _, m := range form.FindAllStringSubmatchIndex(s, -1) {
		from, to := m[0], m[1]
		if len(m) > 2 {
			from, to = m[2], m[3]
		}
		b.WriteString(s[at:from])
		b.WriteString(with(s[from:to]))
		at = to
	}
	return b.String() + s[at:]
}

// number is the placeholder of an identifier.
func (n *normal) number(class, value string) string {
	if n.seen[value] == "" {
		n.next[class]++
		n.seen[value] = fmt.Sprintf("<%s %d>", class, n.next[class])
	}
	return n.seen[value]
}

// near is how far from the run a time may be to be one of the run's. The script
// asks for none in between.
const near = 400 * 24 * time.Hour

// class is the placeholder of a time; empty: it is not of the run.
func (n *normal) class(t time.Time) string {
	first := n.rec.Start.UTC().Truncate(24 * time.Hour)
	switch {
	case t.Before(n.rec.Start.Add(-near)) || t.After(n.rec.Start.Add(near)):
		return ""
	case t.Equal(t.Truncate(24 * time.Hour)):
		return "day " + strconv.Itoa(int(t.Sub(first)/(24*time.Hour)))
	}
	return "time"
}

func (n *normal) stamp(s string) string {
	m := stamps.FindStringSubmatch(s)
	if m[3] == "" {
		if t, err := time.Parse(time.DateOnly, m[1]); err == nil {
			if c := n.class(t); c != "" {
				if t.Equal(n.rec.Start.UTC().Truncate(24 * time.Hour)) {
					c = "day 0"
				}
				return "<" + c + ">"
			}
		}
		return s
	}
	t, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00",
		m[1]+"T"+m[3]+m[4]+map[bool]string{true: "Z", false: m[5]}[m[5] == ""])
	if err != nil {
		return s
	}
	c := n.class(t)
	if c == "" {
		return s
	}
	// The form stays: the separator between day and time, fractions, the zone.
	fraction := ""
	if m[4] != "" {
		fraction = "." + strings.Repeat("0", min(3, len(m[4])-1)) // trailing zeros are left out by some
	}
	return "<" + c + m[2] + fraction + m[5] + ">"
}

func (n *normal) unix(s string) string {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return s
	}
	unit, t := "s", time.Unix(v, 0)
	switch len(s) {
	case 13:
		unit, t = "ms", time.UnixMilli(v)
	case 16:
		unit, t = "us", time.UnixMicro(v)
	case 19:
		unit, t = "ns", time.Unix(0, v)
	}
	if c := n.class(t.UTC()); c != "" {
		return "<" + c + " " + unit + ">"
	}
	return s
}

func (n *normal) all() []*entry {
	out := make([]*entry, len(n.rec.Entries))
	for i, e := range n.rec.Entries {
		out[i] = n.entry(e)
	}
	return out
}

// entry is an entry without the values of its run alone.
func (n *normal) entry(e *entry) *entry {
	out := &entry{Name: n.text(e.Name)}
	// Those that are named after others come in the same order in both recordings.
	head, body := "", ""
	for _, p := range e.Parts {
		switch p.Name {
		case "head":
			head = string(p.Data)
		case "body":
			body = string(p.Data)
		}
	}
	for _, p := range e.Parts {
		if probe(p) {
			continue
		}
		data := string(p.Data)
		switch {
		case p.Name == "head":
			data = n.head(data, body)
		case p.Name == "body":
			data = n.text(string(unpacked(head, p.Data)))
		case strings.HasPrefix(p.Name, "asked "):
			data = n.asked(data)
		case p.Name == "stdout":
			data = sizes.ReplaceAllString(n.text(data), "${1}<count>")
		default:
			data = n.text(data)
		}
		if strings.Contains(e.Name, twoNodes) {
			p.Name, data = eitherNode.ReplaceAllString(p.Name, "node"), eitherNode.ReplaceAllString(data, "node")
		}
		out.add(p.Name, []byte(data))
	}
	return out
}

// twoNodes is the network that two nodes take turns at: which of them is asked
// is chance.
const twoNodes = "ethereum-sepolia"

var eitherNode = regexp.MustCompile(`node-[01]`)

// probe says that the gateway asked a node for itself, which happens when it
// wants: no request has caused it.
func probe(p part) bool {
	return strings.HasPrefix(p.Name, "asked node-") && !bytes.Contains(p.Data, []byte("\r\nX-Request-ID: "))
}

// head is the head of an answer: a length that follows from values that differ
// is only checked.
func (n *normal) head(head, body string) string {
	plain := string(unpacked(head, []byte(body)))
	head = refilled.ReplaceAllString(head, "${1}<count>")
	out := n.text(balances.ReplaceAllStringFunc(head, n.balance))
	length := headerOf(head, "Content-Length")
	if length == "" || length != strconv.Itoa(len(body)) || plain == body && n.text(body) == body {
		return out
	}
	return contentLength.ReplaceAllString(out, "${1}<right>")
}

var balances = regexp.MustCompile(`(?m)^X-[A-Za-z]+-Balance-[A-Za-z]+: [0-9.]+`)

// balance replaces a balance by its difference to the last one that was written. A charge
// that differs is shown once, and not in every later entry.
func (n *normal) balance(line string) string {
	name, text, _ := strings.Cut(line, ": ")
	whole, fraction, _ := strings.Cut(text, ".")
	nano, _ := strconv.ParseInt(whole+(fraction + "000000000")[:9], 10, 64)
	since := n.told[name] - nano
	n.told[name] = nano
	return fmt.Sprintf("%s: <the last one less %d nano>", name, since)
}

var contentLength = regexp.MustCompile(`(?mi)^(Content-Length: )[0-9]+`)

var boundaries = regexp.MustCompile(`(?i)multipart/form-data; ?boundary="?([^"\r\n;]+)`)

// asked is a request that an upstream got.
func (n *normal) asked(request string) string {
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	if m := boundaries.FindStringSubmatch(head); m != nil {
		name := n.number("boundary", m[1])
		head, body = strings.ReplaceAll(head, m[1], name), strings.ReplaceAll(body, m[1], name)
	}
	if strings.Contains(head, "<boundary ") { // the parts of a form come in any order
		parts := strings.SplitAfter(n.text(body), "\r\n--<boundary ")
		sort.Strings(parts)
		return n.head(head+"\r\n\r\n", body) + strings.Join(parts, "")
	}
	return n.head(head+"\r\n\r\n", body) + n.text(body)
}

// unpacked is a body without its content coding.
func unpacked(head string, body []byte) []byte {
	var r io.Reader
	switch headerOf(head, "Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return body
		}
		r = z
	case "br":
		r = brotli.NewReader(bytes.NewReader(body))
	default:
		return body
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return body
	}
	return plain
}
