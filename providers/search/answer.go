package search

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/proxy/scan"
)

// Result is one page that was found. Its texts are plain ([clean]). Date is as the service
// writes it, and may be empty.
type Result struct{ Title, URL, Content, Date string }

// Texts of search results are cut to these lengths in bytes.
const (
	maxTitle   = 1 << 10
	maxLink    = 4 << 10
	maxContent = 16 << 10
	maxDate    = 128
)

// results reads an answer; nil if it is not one. An answer without results has an
// empty list.
func (u *Upstream) results(body []byte, limit int) []Result {
	body = bytes.Trim(body, " \t\r\n")
	// gjson neither bounds the depth of brackets nor checks their content.
	if end, why := scan.Value(body, 0, 0, scan.MaxDepth); why != 0 || end != len(body) {
		return nil
	}
	top := gjson.ParseBytes(body)
	if !top.IsObject() && !top.IsArray() {
		return nil
	}
	list := make([]Result, 0, limit)
	top.Get(u.format.Results).ForEach(func(_, one gjson.Result) bool {
		text := func(paths []string, most int) string {
			return first(one, paths, func(s string) string { return clean(s, u.format.HTML, most) })
		}
		r := Result{
			Title: text(u.format.Title, maxTitle), Content: text(u.format.Content, maxContent),
			Date: text(u.format.Date, maxDate),
			URL:  first(one, u.format.URL, func(s string) string { return cut(s, maxLink+utf8.UTFMax) }),
		}
		// Results need a link to follow, a whole one, and none that would run as a script
		// when clicked.
		if len(r.URL) <= maxLink && (strings.HasPrefix(r.URL, "https://") || strings.HasPrefix(r.URL, "http://")) {
			list = append(list, r)
		}
		return len(list) < limit
	})
	return list
}

// first is the first of some paths that has text, as read makes it.
func first(one gjson.Result, paths []string, read func(string) string) string {
	for _, path := range paths {
		v := one.Get(path)
		if v.Type != gjson.String && v.Type != gjson.Number {
			continue
		}
		if text := read(strings.ToValidUTF8(strings.TrimSpace(v.String()), "\uFFFD")); text != "" {
			return text
		}
	}
	return ""
}

// cut ends a text between two characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
