package augment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"farebox/tests/rig"
)

const parsing = "/augment/text-parser"

// part is a field of a form, or a file where it has a filename.
type part struct{ name, filename, content string }

// form is a body of some parts, with its type.
func form(parts ...part) (contentType string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		if p.filename == "" {
			_ = w.WriteField(p.name, p.content)
			continue
		}
		f, _ := w.CreateFormFile(p.name, p.filename)
		_, _ = f.Write([]byte(p.content))
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

// parse sends a document under a name.
func (s *shop) parse(t testing.TB, name string, doc []byte, more ...part) (int, string) {
	t.Helper()
	kind, body := form(append(more, part{"file", name, string(doc)})...)
	status, _, answer := s.send(context.Background(), parsing, kind, body)
	if status == 0 {
		t.Fatalf("%s is not answered: %s", name, answer)
	}
	return status, answer
}

// Documents are read, refused and charged as they should be.
func TestDocuments(t *testing.T) {
	t.Parallel()
	s := start(t, settings+"augment: { text_parser: { rate: { rpm: 0 }, workers: 2, timeout: 30s } }\n", "100")
	text := part{"response_format", "", "text"}
	t.Run("a text has its tokens and is one line on the bill", func(t *testing.T) {
		for _, n := range []int{1, 3, 4, 16, 17, 32, 33, 320, 321} {
			doc := strings.Repeat("ü", n)
			want := fmt.Sprintf(`{"text":%q,"tokens":%d}`, doc, (n*10+31)/32)
			if status, answer := s.parse(t, "a.txt", []byte(doc)); status != 200 || answer != want {
				t.Errorf("%d characters: %d %s, want %s", n, status, answer, want)
			}
		}
		s.charged(t, 9)
		var usage struct {
			Data []struct {
				SKU                            string
				Units, PricePerUnitUSD, Amount json.Number
			}
		}
		s.Must(200, "GET", "/billing/usage", s.admin, "", &usage)
		if len(usage.Data) != 9 || fmt.Sprint(usage.Data[0]) != "{augment-parser-document 1 0.01 -0.01}" {
			t.Errorf("the usage is %+v", usage)
		}
	})
	t.Run("a document is known by its content and not by its name", func(t *testing.T) {
		n := 0
		for _, c := range []struct {
			name string
			doc  []byte
			want []string
		}{
			{"x.pdf", []byte("# A title\n\n* point é"), []string{"# A title\n\n* point é"}},
			{"a.csv", []byte("bird,legs\nstork,2\n"), []string{"bird,legs\nstork,2"}},
			{"a.json", []byte(`{"bird": "stork"}`), []string{`{"bird": "stork"}`}},
			{"a.go", []byte("package main\n\nfunc main() {\n\tprintln(\"stork\")\n}\n"), []string{"\tprintln(\"stork\")"}},
			{"latin.txt", []byte("Gr\xfc\xdfe"), []string{"Grüße"}}, {"wide", []byte("\xff\xfes\x00t\x00"), []string{"st"}},
			{"letter.txt", docx(t, "A stork", "and a pelican"), []string{"A stork", "and a pelican"}},
			{"noname", xlsx(t, ""), []string{"Pelican", "12.5", "Stork"}},
			{"../../etc/passwd", pdf("A stork on paper"), []string{"A stork on paper"}},
			{"a\"b;c.exe", pdf("A stork on paper"), []string{"A stork on paper"}},
		} {
			for _, as := range []string{"json", "text"} {
				status, answer := s.parse(t, c.name, c.doc, part{"response_format", "", as})
				got := answer
				if as == "json" {
					var v struct {
						Text   string
						Tokens int
					}
					err := json.Unmarshal([]byte(answer), &v)
					if got = v.Text; err != nil || v.Tokens != (utf8.RuneCountInString(got)*10+31)/32 {
						t.Errorf("%s: %v %s", c.name, err, answer)
					}
				}
				for _, want := range c.want {
					if status != 200 || !strings.Contains(got, want) {
						t.Errorf("%s as %s: %d %.200s, want %s", c.name, as, status, answer, want)
					}
				}
				n++
			}
		}
		kind, body := form(text, part{"file", "a", "stork"})
		if status, header, answer := s.send(context.Background(), parsing, kind, body); status != 200 ||
			answer != "stork" || header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("as text: %d %v %s", status, header, answer)
		}
		s.charged(t, n+1)
	})
	t.Run("documents without a text are 400 and free", func(t *testing.T) {
		whole := docx(t, strings.Repeat("A stork ", 1000))
		for name, c := range map[string]struct {
			doc  []byte
			want string
		}{
			"nothing": {nil, "empty"}, "white space": {[]byte(" \n\t"), "empty"}, "a mark": {[]byte("\xef\xbb\xbf"), "empty"},
			"encrypted": {xlsx(t, "stork"), "encrypted"}, "a scan": {pdf(""), "No text could be extracted"},
			"a picture":     {[]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), "not supported"},
			"a program":     {append([]byte("\x7fELF"), make([]byte, 100)...), "not supported"},
			"RTF":           {[]byte(`{\rtf1 stork}`), "not supported"},
			"an archive":    {zipped(t, "a.txt", "stork"), "not supported"},
			"half a letter": {whole[:len(whole)/2], "cannot be read"}, "half a PDF": {pdf("stork")[:200], ""},
			"a PDF of nothing": {[]byte("%PDF-1.7\n"), "cannot be read"},
			"a bomb":           {bomb(100), ""},
		} {
			status, answer := s.parse(t, "a.bin", c.doc)
			if status != 400 || !strings.Contains(answer, c.want) || !strings.Contains(answer, `"path":["file"]`) {
				t.Errorf("%s: %d %.300s", name, status, answer)
			}
		}
		s.charged(t, 0)
	})
	t.Run("forms that are wrong are refused and free", func(t *testing.T) {
		file := part{"file", "a.txt", "stork"}
		for name, c := range map[string]struct {
			parts  []part
			status int
			want   string
		}{
			"no file": {[]part{text}, 400, "file: is required"}, "nothing": {nil, 400, ""},
			"a field":       {[]part{{"file", "", "stork"}}, 400, "received a field"},
			"two files":     {[]part{file, file}, 400, "expected one file"},
			"another form":  {[]part{file, {"response_format", "", "xml"}}, 400, "expected json or text"},
			"no form":       {[]part{file, {"response_format", "", ""}}, 400, "expected json or text"},
			"another name":  {[]part{{"document", "a.txt", "stork"}}, 400, "file: is required"},
			"too large":     {[]part{{"file", "a.txt", strings.Repeat("x", 25<<20+1)}}, 413, "PAYLOAD_TOO_LARGE"},
			"far too large": {[]part{{"file", "a.txt", strings.Repeat("x", 26<<20)}}, 413, "at most 25MB are taken"},
			"beyond all":    {[]part{{"file", "a.txt", strings.Repeat("x", 40<<20)}}, 413, "at most 25MB are taken"},
		} {
			kind, body := form(c.parts...)
			if status, _, answer := s.send(context.Background(), parsing, kind, body); status != c.status ||
				!strings.Contains(answer, c.want) {
				t.Errorf("%s: %d %.300s", name, status, answer)
			}
		}
		kind, body := form(file)
		for _, c := range []struct {
			kind   string
			body   []byte
			status int
		}{
			{"application/json", []byte(`{"file":"stork"}`), 415}, {"text/plain", body, 415}, {"", body, 415},
			{"application/x-www-form-urlencoded", []byte("file=stork"), 415}, {"multipart/mixed; boundary=x", body, 415},
			{"multipart/form-data", body, 400}, {"multipart/form-data; boundary=other", body, 400},
			{kind, body[:len(body)-6], 400}, {kind, nil, 400},
		} {
			if status, _, answer := s.send(context.Background(), parsing, c.kind, c.body); status != c.status {
				t.Errorf("%s: %d %.300s, want %d", c.kind, status, answer, c.status)
			}
		}
		s.charged(t, 0)
	})
	t.Run("25 MB are taken", func(t *testing.T) {
		if testing.Short() {
			t.Skip("it is large")
		}
		doc := bytes.Repeat([]byte("stork on\n"), 25<<20/9)
		if status, answer := s.parse(t, "a.txt", doc, text); status != 200 || len(answer) < len(doc)-1 {
			t.Errorf("%d %d %.200s", status, len(answer), answer)
		}
		s.charged(t, 1)
	})
	t.Run("documents beyond the children wait for their turn", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				word := fmt.Sprint("stork", i)
				if status, answer := s.parse(t, "a.pdf", pdf(word), text); status != 200 || !strings.Contains(answer, word) {
					t.Errorf("document %d: %d %.200s", i, status, answer)
				}
			})
		}
		all.Wait()
		s.charged(t, 16)
	})
	t.Run("a key gives the same text twice and costs once", func(t *testing.T) {
		var first string
		for i := range 2 { // another boundary and another name are the same document
			kind, body := form(part{"file", fmt.Sprint("a", i), "stork"})
			status, header, answer := s.send(context.Background(), parsing, kind, body, "Idempotency-Key", "d1")
			if status != 200 || i == 1 && (answer != first || header.Get("Idempotent-Replayed") != "true") {
				t.Errorf("%d %v %s", status, header, answer)
			}
			first = answer
		}
		kind, body := form(part{"file", "a0", "pelican"})
		if status, _, answer := s.send(context.Background(), parsing, kind, body, "Idempotency-Key", "d1"); status != 400 {
			t.Errorf("another document under the key: %d %s", status, answer)
		}
		s.charged(t, 1)
	})
	t.Run("a client that leaves while a document is read pays once", func(t *testing.T) {
		kind, body := form(part{"file", "a.docx", string(slow(t))})
		s.leave(t, parsing, kind, body, func() bool {
			n, _ := s.Metric("farebox_jail_jobs")
			return n >= 1
		})
		s.charged(t, 1)
	})
	t.Run("a client that leaves while others' documents are read pays nothing", func(t *testing.T) {
		kind, body := form(part{"file", "a.docx", string(slow(t))})
		ctx, cancel := context.WithCancel(context.Background())
		var others sync.WaitGroup
		for range 2 {
			others.Go(func() { s.send(ctx, parsing, kind, body) })
		}
		jobs := func(want float64) func() bool {
			return func() bool {
				n, _ := s.Metric("farebox_jail_jobs")
				return n == want
			}
		}
		rig.Await(t, "both children read", jobs(2))
		kind, waits := form(part{"file", "a.txt", "stork"})
		s.leave(t, parsing, kind, waits, jobs(3))
		rig.Await(t, "requests of clients that left wait no more", jobs(2))
		cancel()
		others.Wait()
		s.charged(t, 2)
	})
	t.Run("a child that the system kills is not the document's fault", func(t *testing.T) {
		kind, body := form(part{"file", "a.docx", string(slow(t))})
		ended := make(chan int)
		go func() {
			status, _, _ := s.send(context.Background(), parsing, kind, body)
			ended <- status
		}()
		rig.Await(t, "a child reads", func() bool {
			n, _ := s.Metric("farebox_jail_jobs")
			return n >= 1
		})
		time.Sleep(300 * time.Millisecond) // the job is in the child
		for _, id := range s.kids() {
			pid, _ := strconv.Atoi(id)
			if child, err := os.FindProcess(pid); err == nil && pid > 1 {
				_ = child.Kill()
			}
		}
		if status := <-ended; status != 503 {
			t.Errorf("answered %d", status)
		}
		s.charged(t, 0)
		rig.Await(t, "there are children again", func() bool {
			status, _ := s.parse(t, "a", []byte("stork"))
			return status == 200
		})
		s.had = s.has()
	})
	t.Run("an account without money gets nothing", func(t *testing.T) {
		s.NewAccount("poor", "0.009")
		poor := *s
		poor.key = s.Key("poor")
		if status, answer := poor.parse(t, "a", []byte("stork")); status != 402 ||
			!strings.Contains(answer, "INSUFFICIENT_BALANCE") {
			t.Errorf("%d %s", status, answer)
		}
	})
	t.Run("nothing of a document is in the log", func(t *testing.T) {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "stork") || strings.Contains(line, "passwd") {
				t.Fatalf("the log says %s", line)
			}
		}
	})
	t.Run("metrics count sales", func(t *testing.T) {
		spent := s.Settled()["a"].Spent
		if n, ok := s.Metric(`farebox_augment_total{of="text_parser"}`); !ok || rig.Money(n)*price != spent {
			t.Errorf("%v documents are counted, %s were charged", n, spent)
		}
	})
	s.CLI("verify")
}

// With per_child: 1 nothing of a document can wait for another in the process that
// reads both.
func TestADocumentMeetsNoOther(t *testing.T) {
	t.Parallel()
	s := start(t, settings+"augment: { text_parser: { workers: 1, per_child: 1 } }\n", "1")
	for range 3 {
		rig.Await(t, "a document is read", func() bool {
			status, _ := s.parse(t, "a", []byte("stork"))
			return status == 200
		})
	}
	s.MetricIs("farebox_jail_children_total", func(n float64) bool { return n >= 3 })
	s.CLI("verify")
}

// A document that takes too long is the client's, and says so; one that waited too
// long for its turn is not.
func TestDocumentsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	s := start(t, settings+"augment: { text_parser: { workers: 1, timeout: 1s } }\n", "100")
	rig.Await(t, "the children are ready", func() bool {
		status, _ := s.parse(t, "a", []byte("stork"))
		return status == 200
	})
	s.had = s.has()
	doc := slow(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range 4 {
		all.Go(func() {
			began := time.Now()
			status, answer := s.parse(t, "a.pdf", doc)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case status == 400 && strings.Contains(answer, "takes too long"):
				got["long"]++
			case status == 503 && strings.Contains(answer, "othing was charged"):
				got["waited"]++
			default:
				t.Errorf("%d %s", status, answer)
			}
		})
	}
	all.Wait()
	if got["long"] == 0 {
		t.Errorf("answered %v", got)
	}
	s.charged(t, 0)
	s.CLI("verify")
}
