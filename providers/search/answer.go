package search

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/proxy/scan"
)

// Result is one page that was found. Date is as the service writes it, and empty
// where it knows none.
type Result struct{ Title, URL, Content, Date string }

// Of each text so many bytes are taken: what strangers wrote may be long.
const (
	maxTitle   = 1 << 10
	maxLink    = 4 << 10
	maxContent = 16 << 10
	maxDate    = 128
)

// results reads an answer; nil: it is none. An answer without results has an
// empty list.
func (u *Upstream) results(body []byte, limit int) []Result {
	body = bytes.Trim(body, " \t\r\n")
	// Who reads the paths does not ask how deep brackets nest, nor what they hold.
	if end, why := scan.Value(body, 0, 0, scan.MaxDepth); why != 0 || end != len(body) {
		return nil
	}
	top := gjson.ParseBytes(body)
	if !top.IsObject() && !top.IsArray() {
		return nil
	}
	list := make([]Result, 0, limit)
	top.Get(u.format.Results).ForEach(func(_, one gjson.Result) bool {
		r := Result{
			Title: first(one, u.format.Title, maxTitle), URL: first(one, u.format.URL, maxLink+utf8.UTFMax),
			Content: first(one, u.format.Content, maxContent), Date: first(one, u.format.Date, maxDate),
		}
		// What cannot be followed is no result, nor is a link without its end, and
		// what would run where it is clicked on even less so.
		if len(r.URL) <= maxLink && (strings.HasPrefix(r.URL, "https://") || strings.HasPrefix(r.URL, "http://")) {
			list = append(list, r)
		}
		return len(list) < limit
	})
	return list
}

// first is the first of some paths that has text, cut where that is too long.
func first(one gjson.Result, paths []string, most int) string {
	for _, path := range paths {
		v := one.Get(path)
		if v.Type != gjson.String && v.Type != gjson.Number {
			continue
		}
		if text := strings.TrimSpace(v.String()); text != "" {
			return cut(strings.ToValidUTF8(text, "\uFFFD"), most)
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
