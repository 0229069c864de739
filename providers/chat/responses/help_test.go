package responses

import (
	"bytes"
	"encoding/json"
	"testing"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

const testID = "0123456789abcdef0123456789abcdef"

var (
	sdk      = &Options{Brand: "svc", Aliases: []string{"other"}, Extras: true}
	spec     = &Options{Brand: "svc", Aliases: []string{"other"}, Spec: true}
	plain    = &Options{Brand: "svc", Aliases: []string{"other"}}
	ownShape = Shape("svc", []string{"other"})
	chatBook = dialect.ChatShape("svc", []string{"other"}, []string{"service_tier"})
)

// formOf reads a body as routes does.
func formOf(t testing.TB, o *Options, body string) *Form {
	t.Helper()
	doc := &scan.Document{}
	if err := doc.SkimStrict([]byte(body), ownShape); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f := NewForm(o, []byte(body), doc, []byte(testID), 1_700_000_000)
	f.Check()
	return f
}

// chatOf is the chat that a form's body became.
func chatOf(t testing.TB, f *Form) *dialect.Chat {
	t.Helper()
	c := &dialect.Chat{Body: f.Request(), Doc: &scan.Document{}, Choices: 1, Form: f, Told: f.body, ToldDoc: f.doc}
	if err := c.Doc.SkimStrict(c.Body, chatBook); err != nil {
		t.Fatalf("the chat body cannot be read: %v\n%s", err, c.Body)
	}
	c.Stream = c.True(c.Doc.TopIndex(dialect.ChatStream))
	c.Model = &dialect.Model{ID: "m", Config: &config.Model{ID: "m"}, Tokenizer: "o200k_base",
		Chat: &config.Chat{MaxCompletionTokens: 1000}, ImageTokens: 1600}
	return c
}

// same fails unless two texts are the same JSON.
func same(t testing.TB, what, got, want string) {
	t.Helper()
	if a, b := compact(t, got), compact(t, want); a != b {
		t.Errorf("%s\n got %s\nwant %s", what, a, b)
	}
}

func compact(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	return b.String()
}
