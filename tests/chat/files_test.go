package chat

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"farebox/bench/upstream"
	"farebox/tests/rig"
)

const filesConfig = `
log: { level: info, format: json, sample_above: 0 }
limits: { failed_requests: { count: 0 } }
upstreams:
  - { name: first, base_url: %[1]s, breaker: { failures: 0 } }
  - { name: second, dialect: anthropic, base_url: %[1]s, key: k, breaker: { failures: 0 } }
models:
  - { id: sim-chat, tier: unlimited, context_tokens: 128000, max_completion_tokens: 100, price: { input: 1, output: 2 }, targets: [{ upstream: first }] }
  - { id: sim-claude, tier: unlimited, context_tokens: 128000, max_completion_tokens: 100, price: { input: 1, output: 2 }, targets: [{ upstream: second }] }
  - id: sim-files
    tier: unlimited
    context_tokens: 128000
    max_completion_tokens: 100
    capabilities: { files: true }
    price: { input: 1, output: 2 }
    targets: [{ upstream: first }]
augment:
  text_parser: { timeout: 50s } # the race detector is slow
`

// wordFile is a document of one paragraph.
func wordFile(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range map[string]string{
		"[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
			`<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
		"_rels/.rels": `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
			`<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
		"word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">` +
			`<w:body><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:body></w:document>`,
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// "The file was too long for the time limit, so that the model never saw a word of it."
func TestALongFileIsReadUpToTheDeadline(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, strings.Replace(fmt.Sprintf(filesConfig, sim.URL), "timeout: 50s", "timeout: 1s", 1))
	g.NewAccount("a", "5")
	key := g.Key("a")
	pad := make([]byte, 400<<10) // incompressible bytes keep it from looking like a bomb
	x := rand.New(rand.NewPCG(1, 2))
	for i := range pad {
		pad[i] = byte(x.Uint32())
	}
	long := wordFile(t, "Rivers move their bends.</w:t></w:r></w:p>"+strings.Repeat("<a/>", 15<<20)+
		"<w:p><w:r><w:t>The end."+"</w:t></w:r></w:p><!--"+hex.EncodeToString(pad)+"--><w:p><w:r><w:t>")
	body := `{"model":"sim-chat","messages":[{"role":"user","content":[` + filePart(long, "") + `]}]}`
	rig.Await(t, "the children are ready", func() bool {
		status, _, _ := g.Post("/chat/completions", key, strings.Replace(body, base64.StdEncoding.EncodeToString(long),
			base64.StdEncoding.EncodeToString([]byte("short")), 1))
		return status == 200
	})
	status, _, answer := g.Post("/chat/completions", key, body)
	if got := string(sim.Latest(t).Body); status != 200 || strings.Contains(got, "The end.") ||
		!strings.Contains(got, `Rivers move their bends.\n\n[The document continues: the rest was not read.]`) {
		t.Errorf("%d %.300s: the model got %.500s", status, answer, got)
	}
}

// filePart is a part with a file; more are its further members.
func filePart(content []byte, more string) string {
	return `{"type":"file","file":{"file_data":"data:application/octet-stream;base64,` +
		base64.StdEncoding.EncodeToString(content) + `","filename":"report \"1\".docx"}` + more + `}`
}

// Models that take no files get their text, at the price of its tokens.
func TestFilesBecomeText(t *testing.T) {
	t.Parallel()
	sim := rig.StartUpstream(t, upstream.Options{})
	g := rig.StartGateway(t, fmt.Sprintf(filesConfig, sim.URL))
	g.NewAccount("a", "5")
	key := g.Key("a")
	ask := func(model string, parts ...string) string {
		return `{"model":"` + model + `","messages":[{"role":"system","content":"Read."},{"role":"user","content":[` +
			strings.Join(parts, ",") + `]}]}`
	}
	question := `{"type":"text","text":"What is in it?"}`
	word := wordFile(t, "Rivers move their bends.")
	before := rig.Money(0)
	for _, model := range []string{"sim-chat", "sim-claude"} {
		status, _, answer := g.Post("/chat/completions", key, ask(model, question,
			filePart(word, `,"cache_control":{"type":"ephemeral"}`), filePart([]byte("a,b\n1,2\n"), "")))
		if status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		body := string(sim.Latest(t).Body)
		if !strings.Contains(body, `The text of an attached file, \"report \\\"1\\\".docx\":\n\nRivers move their bends.`) ||
			!strings.Contains(body, "1,2") || strings.Contains(body, "file_data") || !strings.Contains(body, "ephemeral") {
			t.Errorf("%s got %s", model, body)
		}
		s := readSaid(t, answer, false)
		before = spent(t, g, before, s.costs())
	}
	if status, _, answer := g.Post("/chat/completions", key, ask("sim-files", question, filePart(word, ""))); status != 200 ||
		!strings.Contains(string(sim.Latest(t).Body), "file_data") {
		t.Errorf("%d %s", status, answer)
	}
	before = g.Settled()["a"].Spent
	sent := sim.Idle(t).Requests
	path := "messages.1.content.1.file.file_data"
	for name, part := range map[string]string{
		"an empty file":     filePart(nil, ""),
		"an odd file":       filePart([]byte("\x00\x01\x02\x03\xff\xfe"), ""),
		"a broken document": filePart(word[:len(word)/2], ""),
		"a link":            `{"type":"file","file":{"file_data":"file:///etc/passwd"}}`,
		"no base64":         `{"type":"file","file":{"file_data":"data:text/plain;base64,%%%"}}`,
	} {
		status, _, answer := g.Post("/chat/completions", key, ask("sim-chat", question, part))
		if status != 400 || !strings.Contains(string(answer), path) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	text := filePart([]byte("x y z"), "")
	if status, _, answer := g.Post("/chat/completions", key, `{"model":"sim-chat","messages":[{"role":"user","content":[`+
		text+`]},{"role":"user","content":[`+strings.Join([]string{text, text, text, text, text}, ",")+
		`]}]}`); status != 400 {
		t.Errorf("six files: %d %s", status, answer)
	}
	g.NewAccount("poor", "")
	if status, _, answer := g.Post("/chat/completions", g.Key("poor"), ask("sim-chat", question, filePart(word, ""))); status != 402 {
		t.Errorf("without money: %d %s", status, answer)
	}
	spent(t, g, before, 0)
	if sim.Idle(t).Requests != sent {
		t.Error("the upstream was asked")
	}
}
