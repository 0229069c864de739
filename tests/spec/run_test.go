package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"math"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	_ "golang.org/x/image/webp"

	"farebox/tests/rig"
)

// untilLimit is how long a step is repeated until it answers as it should.
const untilLimit = time.Minute

// runner carries out one statement.
type runner struct {
	*world
	s    *statement
	n    int               // of the statement
	me   string            // a mark that is in no other request
	kept map[string]string // of earlier steps
	mu   sync.Mutex        // of kept
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	doc    gjson.Result // the body, or a description of one that is not JSON
}

// run reports failed expectations; empty: all hold.
func (r *runner) run() (wrong []string) {
	defer func() {
		if p := recover(); p != nil {
			wrong = append(wrong, fmt.Sprint(p))
		}
	}()
	for i := range r.s.steps {
		st := &r.s.steps[i]
		if d, err := time.ParseDuration(st.Pause); err == nil {
			time.Sleep(d)
		}
		var got *answer
		var bad []string
		for end := time.Now().Add(untilLimit); ; time.Sleep(100 * time.Millisecond) {
			var err error
			for n := range max(st.Times, st.Within, 1) {
				if got, err = r.sendAll(st); err != nil {
					return append(wrong, fmt.Sprintf("%s: %v", st.Do, err))
				}
				if st.Within > 0 && got.status == st.Status {
					if n < st.After {
						wrong = append(wrong, fmt.Sprintf("%s is answered %d after %d requests", st.Do, got.status, n))
					}
					break
				}
			}
			if bad = r.compare(got, st.Until); len(bad) == 0 || st.Until == nil {
				break
			}
			if time.Now().After(end) {
				return append(wrong, fmt.Sprintf("%s is never as awaited: %s", st.Do, strings.Join(bad, "; ")))
			}
		}
		bad = r.check(st, got)
		for _, b := range bad {
			wrong = append(wrong, fmt.Sprintf("%s: %s", st.Do, b))
		}
		if len(bad) > 0 {
			wrong = append(wrong, fmt.Sprintf("answered %d %.600s", got.status, got.body))
			return wrong
		}
		for name, path := range st.Keep {
			if header, ok := strings.CutPrefix(path, "header "); ok {
				r.kept[name] = got.header.Get(header)
			} else {
				r.kept[name] = got.doc.Get(path).String()
			}
		}
	}
	return wrong
}

func (r *runner) compare(got *answer, want map[string]any) (bad []string) {
	for path, w := range want {
		w = r.fill(w)
		value := got.doc
		switch {
		case path == "@status":
			value = gjson.Parse(fmt.Sprint(got.status))
		case path == "@type":
			value = quoted(got.header.Get("Content-Type"))
		case path == "@text":
			value = quoted(string(got.body))
		case path != "@this":
			value = got.doc.Get(r.text(path))
		}
		if m := mismatch(value, w); m != "" {
			bad = append(bad, path+" "+m)
		}
	}
	return bad
}

func quoted(text string) gjson.Result {
	raw, _ := json.Marshal(text)
	return gjson.ParseBytes(raw)
}

func (r *runner) check(st *Step, got *answer) (bad []string) {
	want := st.Status
	if want == 0 {
		want = 200
	}
	if got.status != want {
		return []string{fmt.Sprintf("status is %d, not %d", got.status, want)}
	}
	if want >= 400 {
		text := got.doc.Get("error")
		if text.IsObject() {
			text = text.Get("message")
		}
		if text.Str == "" {
			bad = append(bad, "error has no text")
		}
		if st.Error != "" && !regexp.MustCompile(st.Error).Match(got.body) {
			bad = append(bad, "it does not say "+st.Error)
		}
		if code := got.doc.Get("code").Str; st.Code != "" && !slices.Contains(strings.Split(st.Code, "|"), code) {
			bad = append(bad, fmt.Sprintf("code is %q, not %s", code, st.Code))
		}
	}
	bad = append(bad, r.compare(got, st.JSON)...)
	for name, w := range st.Header {
		values := got.header.Values(name)
		value := gjson.Result{}
		if len(values) > 0 {
			value = quoted(strings.Join(values, ", "))
		}
		if n, ok := w.(string); !ok {
			w = fmt.Sprint(w)
		} else {
			w = r.fill(n)
		}
		if m := mismatch(value, w); m != "" {
			bad = append(bad, "header "+name+" "+m)
		}
	}
	if st.Upstream != nil {
		bad = append(bad, r.sent(st.Upstream)...)
	}
	if usd := st.Charged; usd != "" && usd != "any" || usd == "" && want >= 400 {
		if usd == "" {
			usd = "0" // errors are free
		}
		if prices, ok := strings.CutPrefix(usd, "="); ok {
			usd = bill(got.doc, prices)
		}
		if got.header.Get("X-Request-Id") == "" {
			bad = append(bad, "the answer has no id of its request")
		}
		r.owes(got.header.Get("X-Request-Id"), usd, r.s.chapter+": "+r.s.name)
	}
	return bad
}

// bill is the price of an answer's usage: prices are those of a million tokens of input,
// output, and where they differ, read from and written to the cache; +USD is for the rest.
func bill(doc gjson.Result, prices string) string {
	prices, more, _ := strings.Cut(prices, "+")
	var extra rig.Money
	if more != "" {
		if err := extra.UnmarshalJSON([]byte(strconv.Quote(more))); err != nil {
			panic(err)
		}
	}
	var in, out, read, written float64
	n, _ := fmt.Sscan(prices, &in, &out, &read, &written)
	if n < 3 {
		read = in
	}
	if n < 4 {
		written = in
	}
	usage := doc.Get("usage")
	if !usage.Exists() {
		usage = doc.Get("chunks.@reverse.#(usage.total_tokens>0).usage")
	}
	if !usage.Exists() {
		usage = doc.Get("chunks.@reverse.0.response.usage")
	}
	first := func(paths ...string) int64 {
		for _, path := range paths {
			if v := usage.Get(path); v.Exists() {
				return v.Int()
			}
		}
		return 0
	}
	cached := first("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens")
	made := first("prompt_tokens_details.cache_creation_input_tokens", "prompt_tokens_details.cache_write_tokens")
	prompt, completion := first("prompt_tokens", "input_tokens"), first("completion_tokens", "output_tokens")
	nano := func(price float64) int64 { return int64(math.Round(price * 1000)) }
	return rig.Money((prompt-cached-made)*nano(in) + cached*nano(read) + made*nano(written) + completion*nano(out) + int64(extra)).String()
}

// sent checks the upstream's record of this statement's request, which it writes just after
// it has answered.
func (r *runner) sent(want any) (bad []string) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if bad = r.sentNow(want); len(bad) == 0 || want == "none" || time.Now().After(end) {
			return bad
		}
	}
}

func (r *runner) sentNow(want any) (bad []string) {
	var found *gjson.Result
	head := ""
	for _, in := range r.received() {
		if bytes.Contains(in.Body, []byte(r.me)) {
			doc := gjson.ParseBytes(in.Body)
			if !gjson.ValidBytes(in.Body) {
				members, err := rig.Once(&in)
				if err != nil {
					return []string{"the upstream's request: " + err.Error()}
				}
				text, _ := json.Marshal(members)
				doc = gjson.ParseBytes(text)
			}
			found, head = &doc, in.Head
		}
	}
	paths, ok := want.(map[string]any)
	if !ok {
		if found != nil {
			return []string{"the upstream was asked: " + found.Raw}
		}
		return nil
	}
	if found == nil {
		return []string{"the upstream was not asked"}
	}
	for path, w := range paths {
		value := found.Get(path)
		if path == "@head" {
			value = quoted(head)
		}
		if m := mismatch(value, r.fill(w)); m != "" {
			bad = append(bad, "upstream's "+path+" "+m)
		}
	}
	return bad
}

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// text fills in the variables of a text.
func (r *runner) text(s string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return variable.ReplaceAllStringFunc(s, func(v string) string {
		name := v[2 : len(v)-1]
		if value, ok := r.kept[name]; ok {
			return value
		}
		whole := name
		for kept, value := range r.kept { // $NAME in an argument
			whole = strings.ReplaceAll(whole, "$"+kept, value)
		}
		value, err := r.value(whole)
		if err != nil {
			panic(fmt.Sprintf("%s: %s: %v", r.s.chapter, r.s.name, err))
		}
		if strings.HasPrefix(name, "wallet") || strings.HasPrefix(name, "fresh") {
			r.kept[name] = value
		}
		return value
	})
}

// fill fills in the variables of all texts.
func (r *runner) fill(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = r.fill(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = r.fill(e)
		}
		return out
	}
	return v
}

// sendAll sends as many requests at once as the step says, and gives one with its status.
func (r *runner) sendAll(st *Step) (got *answer, err error) {
	if st.Together == 0 {
		return r.send(st)
	}
	answers := make([]*answer, st.Together)
	failed := make([]error, st.Together)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], failed[i] = r.send(st) })
	}
	all.Wait()
	for _, got = range answers {
		if got != nil && got.status == st.Status {
			break
		}
	}
	return got, errors.Join(failed...)
}

func (r *runner) send(st *Step) (*answer, error) {
	method, path, ok := strings.Cut(st.Do, " ")
	if !ok {
		return nil, fmt.Errorf("%q is not a method and a path", st.Do)
	}
	path = r.text(path)
	url := r.URL + path
	if rest, found := strings.CutPrefix(path, "//"); found {
		url = r.Origin + "/" + rest
	} else if strings.HasPrefix(path, "http") { // a link of an answer
		url = strings.Replace(path, site, r.Origin, 1)
	}
	var body []byte
	kind := ""
	switch b := st.Body.(type) {
	case nil:
	case string:
		body, kind = []byte(r.text(b)), "application/json"
	default:
		text, err := json.Marshal(r.fill(b))
		if err != nil {
			return nil, err
		}
		body, kind = text, "application/json"
	}
	if st.Form != nil {
		var err error
		if body, kind, err = r.form(st.Form); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	as := st.As
	if as == "maker" { // an account may make 20 keys a minute
		as = fmt.Sprintf("maker%d", r.n%makers)
	}
	if key := r.key(as); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range st.Headers {
		if value = r.text(value); value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	res, err := rig.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{status: res.StatusCode, header: res.Header, body: text}
	a.doc = a.read()
	return a, nil
}

// read makes a document of an answer. Of events it is their names, chunks and last line, of
// a picture its format and size, of other bytes how many there are.
func (a *answer) read() gjson.Result {
	kind := a.header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		var events []string
		chunks := []json.RawMessage{}
		last := ""
		for _, line := range strings.Split(string(a.body), "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				events = append(events, strings.TrimSpace(name))
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				last = strings.TrimSpace(data)
				if json.Valid([]byte(last)) {
					chunks = append(chunks, json.RawMessage(last))
				}
			}
		}
		text, _ := json.Marshal(map[string]any{"events": events, "chunks": chunks, "last": last})
		return gjson.ParseBytes(text)
	case gjson.ValidBytes(a.body):
		return gjson.ParseBytes(a.body)
	}
	about := map[string]any{"bytes": len(a.body), "text": string(a.body)}
	if m, format, err := image.Decode(bytes.NewReader(a.body)); err == nil {
		about["format"], about["width"], about["height"] = format, m.Bounds().Dx(), m.Bounds().Dy()
		_, _, _, alpha := m.At(0, 0).RGBA()
		about["opaque"] = alpha == 0xffff
	}
	if strings.HasPrefix(kind, "text/csv") {
		about["columns"], _, _ = strings.Cut(string(a.body), "\n")
	}
	text, _ := json.Marshal(about)
	return gjson.ParseBytes(text)
}

// form makes a multipart body. A file is {file: NAME, of: a generated value, type}.
func (r *runner) form(fields map[string]any) (body []byte, kind string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	write := func(name string, value any) error {
		file, ok := value.(map[string]any)
		if !ok {
			return w.WriteField(name, r.text(fmt.Sprint(value)))
		}
		head := textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, name, file["file"])}}
		if kind, ok := file["type"].(string); ok {
			head.Set("Content-Type", kind)
		}
		part, err := w.CreatePart(head)
		if err != nil {
			return err
		}
		content, err := generate(r.text(file["of"].(string)))
		if err == nil {
			_, err = part.Write(content)
		}
		return err
	}
	for name, value := range fields {
		if list, ok := value.([]any); ok {
			for _, v := range list {
				if err := write(name, v); err != nil {
					return nil, "", err
				}
			}
			continue
		}
		if err := write(name, value); err != nil {
			return nil, "", err
		}
	}
	err = w.Close()
	return b.Bytes(), w.FormDataContentType(), err
}
