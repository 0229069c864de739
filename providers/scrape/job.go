package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"farebox/providers/jail"
)

// The jobs that the jail does for a Scraper.
const (
	// pageJob makes Markdown of HTML's main content.
	pageJob = "scrape-page"
	// textJob takes all text of HTML, in one pass and little memory.
	textJob = "scrape-text"
)

// Jobs are what the child has to know.
func Jobs() jail.Jobs {
	return jail.Jobs{pageJob: readPage, textJob: readText}
}

// task is a job's word.
type task struct {
	Extractor   Extractor
	ContentType string
	URL         string
}

// maxWord is the longest word of a job.
const maxWord = 4 << 10

// word leaves out of a long URL what relative ones hardly ever need.
func (t *task) word() string {
	w := url.Values{"x": {string(t.Extractor)}, "t": {t.ContentType[:min(len(t.ContentType), 200)]}, "u": {t.URL}}
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
	t = task{Extractor: Extractor(v.Get("x")), ContentType: v.Get("t"), URL: v.Get("u")}
	base, err = url.Parse(t.URL)
	return t, base, err
}

// found is what a job gives back: how much visible text there is, and all of it.
type found struct {
	visible  int
	markdown string
}

func (f found) bytes() []byte {
	return append(strconv.AppendInt(nil, int64(f.visible), 10), "\n"+f.markdown...)
}

// parseFound believes nothing of what came out of the jail but that it is text.
func parseFound(out []byte) (f found, err error) {
	head, text, ok := bytes.Cut(out, []byte("\n"))
	n, err := strconv.Atoi(string(head))
	if !ok || err != nil || n < 0 || !utf8.Valid(text) {
		return f, errors.New("cannot read the result of a job")
	}
	return found{visible: n, markdown: string(text)}, nil
}

func readText(in []byte, word string) ([]byte, error) {
	t, _, err := parseTask(word)
	if err != nil {
		return nil, err
	}
	return plainText(toUTF8(in, t.ContentType)).bytes(), nil
}

// readPage never fails for what a page is like: what cannot be understood gives
// its text.
func readPage(in []byte, word string) (out []byte, err error) {
	t, base, err := parseTask(word)
	if err != nil {
		return nil, err
	}
	text := toUTF8(in, t.ContentType)
	defer func() {
		if p := recover(); p != nil {
			out, err = plainText(text).bytes(), nil
		}
	}()
	f, err := extract(text, base, t.Extractor)
	if err != nil {
		f = plainText(text)
	}
	return f.bytes(), nil
}

// sniffed is how many bytes a page's charset is looked for in.
const sniffed = 1024

// toUTF8 goes by the bytes where they are clear, then by what the server says,
// then by what the page says.
func toUTF8(in []byte, contentType string) []byte {
	if in = bytes.TrimPrefix(in, []byte("\xef\xbb\xbf")); utf8.Valid(in) && !escapes(in) {
		return in
	}
	enc, name, _ := charset.DetermineEncoding(in[:min(len(in), sniffed)], contentType)
	if name == "utf-8" {
		if mostlyUTF8(in) {
			return bytes.ToValidUTF8(in, []byte("\uFFFD"))
		}
		// It says so, and is not: the oldest mistake of the web.
		enc, _ = charset.Lookup("windows-1252")
	}
	out, err := enc.NewDecoder().Bytes(in)
	if err != nil {
		return bytes.ToValidUTF8(in, []byte("\uFFFD"))
	}
	return bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))
}

// escapes says that ASCII bytes may be something else: ISO-2022-JP, HZ, or
// UTF-16 without marks.
func escapes(in []byte) bool {
	head := in[:min(len(in), sniffed)]
	return bytes.Contains(in, []byte("\x1b$")) || bytes.Contains(in, []byte("~{")) || bytes.IndexByte(head, 0) >= 0
}

// mostlyUTF8 says that broken characters are the exception.
func mostlyUTF8(in []byte) bool {
	good, bad := 0, 0
	for len(in) > 0 {
		if in[0] < utf8.RuneSelf {
			in = in[1:]
			continue
		}
		r, n := utf8.DecodeRune(in)
		if r == utf8.RuneError && n == 1 {
			bad++
		} else {
			good++
		}
		in = in[n:]
	}
	return bad <= good/8
}
