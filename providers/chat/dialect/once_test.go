package dialect

import (
	"errors"
	"strings"
	"testing"

	"farebox/proxy/scan"
)

// A body written for an upstream is refused if two readers could read it differently, or
// if it has an unknown member.
func TestWrittenBodiesAreReadAgain(t *testing.T) {
	t.Parallel()
	shape := nested(below{"tool": names("type", "name")}, "model", "tool")
	var s Scratch
	f := func(written, want string) {
		t.Helper()
		err := s.Reread([]byte(written), shape)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", written, err, want)
		}
	}
	f(`{"model":"m","tool":{"type":"function","name":"x"}}`, "")
	f(`{"model":"m","tool":{"type":"function","name":"x","type":"mcp"}}`, "tool.type is given more than once")
	f(`{"model":"m","tool":{"type":"function","Type":"mcp"}}`, "tool.type must be written")
	f(`{"model":"m","tool":{"type":"function","t\u0079pe":"mcp"}}`, "tool.type must be written")
	f(`{"model":"m","tool":{"type":"function","server_url":"x"}}`, `"tool" has an unknown member`)
	f(`{"model":"m","store":true}`, "unknown member")
	f(`{"model":"m"`, "ends before")
	deep := strings.Repeat("[", scan.MaxDepth) + strings.Repeat("]", scan.MaxDepth)
	var no *Unsupported
	if err := s.Reread([]byte(`{"model":`+deep+`}`), shape); !errors.As(err, &no) || no.Path != "messages" {
		t.Errorf("%v", err)
	}
}

// An entry that a client hands back has the members of entries, each once.
func TestThoughtsAreWrittenAnew(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		`{"type":"reasoning.text", "text":"a","index":0,"tools":[{"type":"mcp"}]}`: `{"type":"reasoning.text","text":"a","index":0}`,
		`{"type":"reasoning.text","type":"x"}`:                                     "",
		`{"type":"reasoning.text","Text":"x"}`:                                     "",
		`[]`:                                                                       "",
		``:                                                                         "",
	} {
		if got, ok := AppendThought(nil, []byte(entry)); string(got) != want || ok != (want != "") {
			t.Errorf("%s became %s, %v", entry, got, ok)
		}
	}
}
