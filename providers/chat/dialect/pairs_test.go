package dialect_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"farebox/config"
	"farebox/providers/chat/anthropic"
	"farebox/providers/chat/dialect"
	"farebox/providers/chat/gemini"
	"farebox/providers/chat/messages"
	"farebox/providers/chat/openai"
	"farebox/providers/chat/responses"
	"farebox/proxy/scan"
)

var update = flag.Bool("update", false, "write the expected answers of all pairs anew")

// pair is an upstream's dialect with the form in which a client asks.
type pair struct {
	inputs, dialect string
	of              dialect.Dialect
	native          bool // the upstream speaks the client's form
	forms           []string
}

var pairs = []pair{
	{"anthropic", "anthropic", anthropic.Dialect{}, false, []string{"chat", "messages", "responses", "spec"}},
	{"anthropic", "relay", anthropic.Native{}, true, []string{"messages"}},
	{"gemini", "gemini", gemini.Dialect{}, false, []string{"chat", "messages", "responses", "spec"}},
	{"openai", "openai", openai.Dialect{}, false, []string{"chat", "messages", "responses", "spec"}},
	{"responses", "native", responses.Native{}, true, []string{"responses", "spec"}},
}

// answer is an upstream's answer: `stream|whole [cut] [strip] [hide] [choices=n] "bytes"`.
type answer struct {
	words []string
	body  string
	adds  func() dialect.Additions // nil: nothing is added
}

func (a *answer) is(word string) bool {
	for _, w := range a.words {
		if w == word {
			return true
		}
	}
	return false
}

// answersOf reads the answers of a dialect's upstreams.
func answersOf(t *testing.T, name string) (all []answer) {
	text, err := os.ReadFile(filepath.Join("testdata", "pairs", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		head, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ` "`)
		body, err := strconv.Unquote(`"` + quoted)
		if err != nil {
			t.Fatalf("%s: %s", err, line)
		}
		all = append(all, answer{words: strings.Fields(head), body: body})
	}
	return all
}

const (
	messagesBody  = `{"model":"m","max_tokens":900,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	responsesBody = `{"model":"m","input":"hi","stream":true,"tools":[{"type":"function","name":"look","parameters":null}]}`
	chatBody      = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
)

var chatShape = dialect.ChatShape("svc", nil, nil)

// asked is the Chat of a client that asks in a form.
func asked(t testing.TB, form string, a *answer) *dialect.Chat {
	c := &dialect.Chat{Body: []byte(chatBody), Choices: 1, Cap: 1000, MostPrompt: 5000, DropThinking: a.is("strip"), Stream: true}
	own := &scan.Document{}
	switch form {
	case "messages":
		if err := own.SkimStrict([]byte(messagesBody), messages.Shape); err != nil {
			t.Fatal(err)
		}
		f, chat, _ := messages.Read([]byte(messagesBody), own, false)
		c.Form, c.Told, c.ToldDoc, c.Body = f, []byte(messagesBody), own, chat
	case "responses", "spec":
		if err := own.SkimStrict([]byte(responsesBody), responses.Shape("svc", nil)); err != nil {
			t.Fatal(err)
		}
		o := &responses.Options{Brand: "svc", Spec: form == "spec"}
		f := responses.NewForm(o, []byte(responsesBody), own, []byte("0123456789abcdef0123456789abcdef"), 1_700_000_000)
		f.Check()
		c.Form, c.Told, c.ToldDoc, c.Body = f, []byte(responsesBody), own, f.Request()
	}
	c.Doc = &scan.Document{}
	if err := c.Doc.Skim(c.Body, chatShape); err != nil {
		t.Fatal(err)
	}
	if hidden := false; a.is("hide") {
		c.IncludeUsage = &hidden
	}
	if a.is("choices=2") {
		c.Choices = 2
	}
	c.Model = &dialect.Model{ID: "m", Config: &config.Model{ID: "m"}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 1000}}
	if c.Brand = "svc"; a.adds != nil {
		c.Adds = a.adds()
	}
	c.Cost = func(dst []byte, u *dialect.Usage) []byte {
		return strconv.AppendInt(append(dst, "0."...), u.Prompt+u.Completion, 10)
	}
	return c
}

// whole is the client's whole answer, and the charged usage.
func (p *pair) whole(t *testing.T, form string, a *answer) string {
	c, s := asked(t, form, a), dialect.Scratch{}
	if c.Form != nil && !p.native {
		c.Said = &dialect.Completion{}
	}
	out, u, err := p.of.Answer([]byte(a.body), c, targetOf(c), &s)
	if err == nil && c.Said != nil {
		if !p.of.Translates() && !c.Said.Read(out, c.Brand) {
			return "! the answer is not a chat completion\n"
		}
		c.Said.Add(&c.Adds)
		out, err = c.Form.Answer(c.Said, c)
	}
	if failed, ok := err.(*dialect.Failed); ok {
		return fmt.Sprintf("! %d %s\n", failed.Status(), failed.JSON)
	}
	if err != nil {
		return fmt.Sprintf("! %v\n", err)
	}
	return string(out) + p.notes(form, "%+v", u)
}

// streamed is the client's stream, from an upstream's stream in pieces of so many bytes.
func (p *pair) streamed(t *testing.T, form string, a *answer, piece int) string {
	c := asked(t, form, a)
	if c.Form != nil && !p.native {
		c.Client = dialect.OpenForm(c)
		defer c.Client.Release()
	}
	s := p.of.Stream(c, targetOf(c))
	defer s.Release()
	var out bytes.Buffer
	write := func(b []byte) {
		if c.Client != nil {
			b = c.Client.Pass(b)
		}
		out.Write(b)
	}
	for rest := a.body; len(rest) > 0; {
		next := []byte(rest[:min(piece, len(rest))])
		rest = rest[len(next):]
		write(s.Pass(next))
		clear(next) // the proxy's buffer is overwritten by its next read
	}
	finished := s.Finished()
	write(s.Finish(!a.is("cut")))
	if c.Client != nil {
		out.Write(c.Client.Finish())
	}
	return out.String() + p.notes(form, "%+v %d %v %v %v %v %s", s.Usage(), s.Produced(), s.Exceeds(3), finished,
		s.Done(), s.Failed(), s.FailedWith())
}

// notes is a line about an answer, which is the same in all forms.
func (p *pair) notes(form, format string, values ...any) string {
	if form != p.forms[0] {
		return "\n"
	}
	return fmt.Sprintf("\n= "+format+"\n", values...)
}

// limited is how a stream ends of which the client gets a part, since it is beyond its cap.
func (p *pair) limited(t *testing.T, form string, a *answer) string {
	c := asked(t, form, a)
	s := p.of.Stream(c, targetOf(c))
	defer s.Release()
	out := s.Pass([]byte(a.body[:len(a.body)*3/4]))
	c.BrokenOff = true
	short, tail := s.Cut(bytes.Clone(out))
	return fmt.Sprintf("~%d %s\n", len(out)-len(short), tail)
}

func targetOf(c *dialect.Chat) *dialect.Target {
	return &dialect.Target{Upstream: &dialect.Upstream{Config: &config.Upstream{}}, Model: c.Model, Name: "there",
		Quoted: []byte(`"there"`), Renames: true, QuotedID: []byte(`"m"`)}
}

// Times, and ids that a dialect makes up.
var (
	changing = regexp.MustCompile(`"(created|completed_at)":\d{7,}`)
	random   = regexp.MustCompile(`(chatcmpl-|msg_|call_)g[0-9a-z]{8,13}`)
)

func timeless(text string) string {
	return random.ReplaceAllString(changing.ReplaceAllString(text, `"$1":1`), "${1}g")
}

// short writes texts with the bytes that a line shares with the last one of its kind as their
// number.
func short(text string) string {
	var b strings.Builder
	last := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		kind, _, _ := strings.Cut(line, ",")
		head, tail, before := 0, 0, last[kind]
		for most := min(len(line), len(before)); head < most && line[head] == before[head]; head++ {
		}
		for most := min(len(line), len(before)) - head; tail < most && line[len(line)-1-tail] == before[len(before)-1-tail]; tail++ {
		}
		last[kind] = line
		if head < 12 {
			head = 0
		} else {
			fmt.Fprintf(&b, "«%d»", head)
		}
		if tail < 12 {
			tail = 0
		}
		b.WriteString(line[head : len(line)-tail])
		if tail > 0 {
			fmt.Fprintf(&b, "«%d»", tail)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Every answer of an upstream reaches a client of every form with the same bytes as before,
// however it is cut on its way.
func TestPairsKeepTheirBytes(t *testing.T) {
	for _, p := range pairs {
		answers := answersOf(t, p.inputs)
		for _, form := range p.forms {
			t.Run(p.dialect+" "+form, func(t *testing.T) {
				t.Parallel()
				var all strings.Builder
				for i := range answers {
					a := &answers[i]
					fmt.Fprintf(&all, "-- %d %s\n", i+1, strings.Join(a.words, " "))
					if a.is("whole") {
						all.WriteString(timeless(p.whole(t, form, a)))
						continue
					}
					got := timeless(p.streamed(t, form, a, len(a.body)))
					if again := timeless(p.streamed(t, form, a, 7)); again != got {
						t.Errorf("%d in pieces:\n%s\nat once:\n%s", i+1, again, got)
					}
					all.WriteString(got)
					if form == p.forms[0] {
						all.WriteString(timeless(p.limited(t, form, a)))
					}
				}
				compare(t, filepath.Join("testdata", "pairs", p.dialect+"."+form+".want"), all.String())
			})
		}
	}
}

// compare holds answers against those in a file, which has them short.
func compare(t *testing.T, name, text string) {
	text = strings.NewReplacer("\r", "␍", "\n\n", "¶\n").Replace(text)
	got := short(text)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines, plain := strings.Split(string(want), "\n"), strings.Split(text, "\n")
	at, wrong := "", 0
	for i, line := range strings.Split(got, "\n") {
		if i < len(plain) && strings.HasPrefix(plain[i], "-- ") {
			at = plain[i]
		}
		if i < len(lines) && lines[i] == line {
			continue
		}
		if wrong++; wrong > 5 {
			break
		}
		t.Errorf("%s:%d: %s\n got %s\nwant %s\n(%s)", name, i+1, at, line, lines[min(i, len(lines)-1)], plain[min(i, len(plain)-1)])
	}
	if wrong == 0 && got != string(want) {
		t.Errorf("%s: answers are missing", name)
	}
}
