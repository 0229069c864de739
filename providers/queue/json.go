package queue

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"farebox/config"
	"farebox/config/asyncjob"
	"farebox/proxy/jsontext"
)

// Members are those of a JSON object that an upstream sent, their values as they are
// written; the values are in b. Input that is not one whole JSON object gives none, and so
// does an object that has a member twice: its meaning would depend on its reader.
func Members(b []byte) map[string][]byte {
	if !json.Valid(b) {
		return nil
	}
	at := jsontext.SkipSpace(b, 0)
	if at >= len(b) || b[at] != '{' {
		return nil
	}
	list := map[string][]byte{}
	for m := range jsontext.Members(b, at+1) {
		key := m.Key
		if bytes.IndexByte(key, '\\') >= 0 {
			key = jsontext.AppendUnescaped(nil, key)
		}
		if _, twice := list[string(key)]; twice {
			return nil
		}
		list[string(key)] = b[m.From:m.To]
	}
	return list
}

// Percent is a JSON number from 0 to 100 as a job's progress; -1 for any other value.
func Percent(value []byte) int {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return -1
	}
	return int(f)
}

const (
	// maxDepth bounds the depth of the search for the result in an output.
	maxDepth = 4
	// maxURL is the longest link that is kept.
	maxURL = 3 << 10
)

// Made reads the output of an app: the result is at path (audio.url, 0.url), or where apps
// usually have it. It is a link, or a data URL. Without either the job has failed.
func Made(output []byte, kind *config.JobKind, path string) *asyncjob.Status {
	link, called := "", ""
	if json.Valid(output) {
		if path != "" {
			output = at(output, path)
		}
		link, called = find(output, kind, 0)
	}
	if rest, ok := strings.CutPrefix(link, "data:"); ok {
		return inline(rest)
	}
	return Linked(link, called)
}

// Linked is a finished job with a link to its result.
func Linked(link, called string) *asyncjob.Status {
	u, err := url.Parse(link)
	if link == "" || len(link) > maxURL || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return &asyncjob.Status{Progress: -1, Failed: Wrong()}
	}
	if len(called) > 100 {
		called = ""
	}
	result := (&Result{URL: link, Type: called}).bytes()
	if result == nil {
		return &asyncjob.Status{Progress: -1, Failed: Wrong()}
	}
	return &asyncjob.Status{Done: true, Progress: 100, Result: result, Type: called}
}

// Delivered is a finished job whose result is the body of r. Where its
// dialect is Own it may be asked for again.
func Delivered(r *Reply) *asyncjob.Status {
	return &asyncjob.Status{Done: true, Progress: 100, Result: (&Result{Own: true, Type: r.ContentType}).bytes(), Body: r.Media,
		Type: r.ContentType}
}

// Unanswered is the status of an accepted job by an answer that is not 2xx: most often
// unknown. A job that its upstream no longer knows is lost, unless it was accepted within
// grace and may only not be known yet.
func Unanswered(r *Reply, h *Handle, grace time.Duration) (*asyncjob.Status, error) {
	switch {
	case (r.Status == 404 || r.Status == 410) && time.Since(time.Unix(h.Since, 0)) > grace:
		return &asyncjob.Status{Progress: -1, Failed: Lost()}, nil
	case r.Status == 429 || r.Status == 503 && r.RetryAfter > 0:
		return &asyncjob.Status{Progress: -1, Retry: max(r.RetryAfter, time.Second)}, nil
	}
	return nil, statusError(r.Status)
}

// at is the value at a dotted path; nil if absent.
func at(v []byte, path string) []byte {
	for name := range strings.SplitSeq(path, ".") {
		v = bytes.TrimSpace(v)
		if len(v) == 0 {
			return nil
		}
		if v[0] == '{' {
			v = Members(v)[name]
			continue
		}
		n, err := strconv.Atoi(name)
		if v[0] != '[' || err != nil || n < 0 {
			return nil
		}
		var found []byte
		jsontext.Each(v, func(value []byte) bool {
			if n--; n < 0 {
				found = value
			}
			return n >= 0
		})
		v = found
	}
	return v
}

// find is the first link in an output, and its stated type.
func find(v []byte, kind *config.JobKind, depth int) (link, called string) {
	v = bytes.TrimSpace(v)
	if len(v) == 0 || depth > maxDepth {
		return "", ""
	}
	switch v[0] {
	case '"':
		if text := jsontext.Unquoted(v); strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://") ||
			strings.HasPrefix(text, "data:") {
			return text, ""
		}
	case '[':
		jsontext.Each(v, func(value []byte) bool {
			link, called = find(value, kind, depth+1)
			return link == ""
		})
	case '{':
		members := Members(v)
		for _, name := range kind.Outputs {
			if link, called = find(members[name], kind, depth+1); link != "" {
				if name == "url" {
					called = jsontext.Unquoted(members["content_type"])
				}
				return link, called
			}
		}
	}
	return link, called
}

// inline reads the rest of a data URL.
func inline(rest string) *asyncjob.Status {
	head, text, ok := strings.Cut(rest, ",")
	kind, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded {
		return &asyncjob.Status{Progress: -1, Failed: Wrong()}
	}
	body, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(body) == 0 {
		return &asyncjob.Status{Progress: -1, Failed: Wrong()}
	}
	return &asyncjob.Status{Done: true, Progress: 100, Body: readable{bytes.NewReader(body)}, Type: kind}
}

// readable is a body in memory.
type readable struct{ *bytes.Reader }

// Close does nothing.
func (readable) Close() error { return nil }
