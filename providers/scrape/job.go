package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"farebox/providers/charset"
	"farebox/providers/jail"
)

// The jobs that the jail does for a Scraper.
const (
	// pageJob makes Markdown of HTML's main content.
	pageJob = "scrape-page"
	// textJob takes all text of HTML, in one pass and little memory.
	textJob = "scrape-text"
	// decodeJob makes UTF-8 of text in another charset.
	decodeJob = "scrape-decode"
)

// Jobs are the jobs of a jailed child.
func Jobs() jail.Jobs {
	return jail.Jobs{pageJob: readPage, textJob: readText, decodeJob: decode}
}

// task is the parameter of a job.
type task struct {
	ContentType string
	URL         string
}

// maxWord is the longest parameter of a job.
const maxWord = 4 << 10

// word drops the parts of a long URL that relative ones hardly ever need.
func (t *task) word() string {
	w := url.Values{"t": {t.ContentType[:min(len(t.ContentType), 200)]}, "u": {t.URL}}
	for _, end := range []string{"?", "/"} {
		if len(w.Encode()) <= maxWord {
			break
		}
		short, _, _ := strings.Cut(t.URL, "?")
		if end == "/" {
			if u, err := url.Parse(short); err == nil {
				short = u.Scheme + "://" + u.Host + "/"
			}
		}
		w.Set("u", short)
	}
	return w.Encode()
}

func parseTask(word string) (t task, base *url.URL, err error) {
	v, err := url.ParseQuery(word)
	if err != nil {
		return t, nil, fmt.Errorf("cannot read the word of a job: %w", err)
	}
	t = task{ContentType: v.Get("t"), URL: v.Get("u")}
	base, err = url.Parse(t.URL)
	return t, base, err
}

// found is the result of a job.
type found struct {
	visible  int // characters of it that a reader sees
	markdown string
	empty    bool   // the page has no text before its scripts have run
	next     string // its redirect; always: also if it has text
	always   bool
}

func (f found) bytes() []byte {
	return fmt.Appendf(nil, "%d %t %t %s\n%s", f.visible, f.empty, f.always, url.QueryEscape(f.next), f.markdown)
}

// parseFound trusts nothing in the output of the jail but that it is text.
func parseFound(out []byte) (f found, err error) {
	head, text, ok := bytes.Cut(out, []byte("\n"))
	words := strings.Split(string(head), " ")
	if !ok || len(words) != 4 || !utf8.Valid(text) {
		return f, errors.New("cannot read the result of a job")
	}
	f = found{markdown: string(text), empty: words[1] == "true", always: words[2] == "true"}
	if f.next, err = url.QueryUnescape(words[3]); err == nil {
		f.visible, err = strconv.Atoi(words[0])
	}
	if err != nil || f.visible < 0 {
		return f, errors.New("cannot read the result of a job")
	}
	return f, nil
}

func decode(in []byte, word string) ([]byte, error) {
	t, _, err := parseTask(word)
	if err != nil {
		return nil, err
	}
	return charset.UTF8(in, t.ContentType), nil
}

func readText(in []byte, word string) ([]byte, error) {
	t, _, err := parseTask(word)
	if err != nil {
		return nil, err
	}
	return plainText(charset.UTF8(in, t.ContentType)).bytes(), nil
}

// readPage never fails for the content of a page: a page that cannot be parsed gives its
// text.
func readPage(in []byte, word string) (out []byte, err error) {
	t, base, err := parseTask(word)
	if err != nil {
		return nil, err
	}
	text := charset.UTF8(in, t.ContentType)
	defer func() {
		if p := recover(); p != nil {
			out, err = plainText(text).bytes(), nil
		}
	}()
	f, err := extract(text, base)
	if err != nil {
		f = plainText(text)
	}
	return f.bytes(), nil
}
