package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream"
	"farebox/config"
	"farebox/providers/tee/seal"
	"farebox/proxy/scan"
)

func chatOf(t testing.TB, body string) *Chat {
	t.Helper()
	c := &Chat{Body: []byte(body), Doc: &scan.Document{}, Choices: 1}
	if err := c.Doc.Skim(c.Body, ChatShape("svc", nil, nil)); err != nil {
		t.Fatal(err)
	}
	c.Model = &Model{ID: "m", Tokenizer: "o200k_base", Chat: &config.Chat{}, ImageTokens: 85}
	return c
}

func message(role, content string) string {
	raw, _ := json.Marshal(content)
	return fmt.Sprintf(`{"role":%q,"content":%s}`, role, raw)
}

func body(messages ...string) string {
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`
}

// Our count of a prompt must be the one of the upstream that reported none.
func TestPromptIsCountedAsTheUpstreamCountsIt(t *testing.T) {
	for _, b := range []string{
		body(message("user", "hi")),
		body(message("system", "Be brief."), message("user", "Wie heißt die Straße?\n\t\"東京\" 😀"),
			message("assistant", "")),
		body(`{"role":"user","name":"anna maria","content":"hi"}`, `{"role":"tool","tool_call_id":"c","content":"42"}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}`),
		body(`{"role":"user","content":[{"type":"text","text":"look \u0061t"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"text","text":"this"}]}`),
		body(message("user", strings.Repeat("the small river moves past old stone houses ", 900))),
		body(),
	} {
		c := chatOf(t, b)
		want := upstream.CountPrompt([]byte(b))
		if got := CountPrompt(c); got != want {
			t.Errorf("%.80s: %d tokens, the upstream counts %d", b, got, want)
		}
		upper, likely := EstimatePrompt(c, 85)
		if upper < want || likely > upper {
			t.Errorf("%.80s: bound %d, likely %d, count %d", b, upper, likely, want)
		}
	}
	c := chatOf(t, body(message("user", "hi")))
	plain := CountPrompt(c)
	c.SystemPrompt = []byte("Be brief.")
	if got := CountPrompt(c); got != plain+messageTokens+roleTokens+CountTokens("", c.SystemPrompt) {
		t.Errorf("with a system prompt: %d", got)
	}
}

// The bytes of an image are not text. Those of a file, a sound or a video may
// become any number of tokens, so the bound counts them, and a link to one the
// whole context.
func TestAttachmentsInTheBound(t *testing.T) {
	data := strings.Repeat("QUJD", 50_000)
	f := func(part string, least, most int64) {
		t.Helper()
		c := chatOf(t, body(`{"role":"user","content":[`+part+`]}`))
		c.Model = &Model{Chat: &config.Chat{ContextTokens: 100_000}, ImageTokens: 85}
		upper, likely := EstimatePrompt(c, 1600)
		if upper < least || upper > most || likely > 1600+200 {
			t.Errorf("%.40s: upper %d, likely %d; want %d to %d", part, upper, likely, least, most)
		}
		if n := CountPrompt(c); n != 3+4+85 {
			t.Errorf("%.40s: counted %d", part, n)
		}
		if bound, _ := BoundPrompt(c, 1600, 1250); bound < least || bound > most {
			t.Errorf("%.40s: tight bound %d; want %d to %d", part, bound, least, most)
		}
	}
	f(`{"type":"image_url","image_url":{"url":"data:image/png;base64,`+data+`"}}`, 1607, 1800)
	f(`{"type":"input_audio","input_audio":{"data":"`+data+`","format":"wav"}}`, 199_900, 200_400)
	f(`{"type":"file","file":{"filename":"x","file_data":"data:application/pdf;base64,`+data+`"}}`, 199_900, 200_400)
	f(`{"type":"video_url","video_url":{"url":"https://example.org/v.mp4"}}`, 100_000, 100_400)
}

// Counting exactly made the bound of a chat with pictures looser, not tighter.
func TestAttachmentsCountOnceInTheTightBound(t *testing.T) {
	part := `{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}`
	c := chatOf(t, body(`{"role":"user","content":[`+part+`,`+part+`]}`))
	c.Model = &Model{Chat: &config.Chat{ContextTokens: 100_000}, ImageTokens: 1600}
	upper, _ := EstimatePrompt(c, 1600)
	if bound, _ := BoundPrompt(c, 1600, 1000); bound > upper || bound < 3000 {
		t.Errorf("the tight bound is %d, the loose one %d", bound, upper)
	}
}

// No text of a client outside the counted text, or far behind its beginning, may lower
// the tight bound below an upstream's count.
func TestTightBoundCannotBeTalkedDown(t *testing.T) {
	f := func(name, b string, least int64) {
		t.Helper()
		c := chatOf(t, b)
		if bound, _ := BoundPrompt(c, 1600, 1250); bound < least {
			t.Errorf("%s: bound %d, the upstream may count %d", name, bound, least)
		}
		upper, _ := EstimatePrompt(c, 1600)
		if bound, _ := BoundPrompt(c, 1600, 1250); bound > upper+upper/4+16 {
			t.Errorf("%s: tight bound %d is looser than %d", name, bound, upper)
		}
	}
	dense := strings.Repeat("q7#", 100_000)
	f("tools", `{"model":"m","messages":[`+message("user", "hi")+
		`],"tools":[{"type":"function","function":{"name":"f","description":"`+dense+`"}}]}`, 299_800)
	f("unknown member", `{"model":"m","x":"`+dense+`","messages":[`+message("user", "hi")+`]}`, 299_800)
	f("light beginning", body(message("user", strings.Repeat(" ", 66<<10)+dense)), 299_800)
	f("escapes", body(message("user", strings.Repeat(`\u0041`, 100_000))), 1000)

	plain := chatOf(t, body(message("user", strings.Repeat("the small river moves past old stone houses ", 100))))
	upper, _ := EstimatePrompt(plain, 1600)
	if bound, _ := BoundPrompt(plain, 1600, 1000); bound > upper/3 || bound < CountPrompt(plain) {
		t.Errorf("plain text: bound %d of %d bytes, count %d", bound, upper, CountPrompt(plain))
	}
}

// A client that sends much and leaves must not cost seconds of counting.
func TestHostilePromptsAreCountedInTime(t *testing.T) {
	for name, text := range map[string]string{
		"words":       strings.Repeat("the small river ", 1<<20),
		"white space": strings.Repeat("\n \n", 1<<20),
		"spaces":      strings.Repeat(" ", 4<<20),
		"one letter":  strings.Repeat("a", 4<<20),
		"marks":       strings.Repeat("=-=!", 1<<20),
		"emoji":       strings.Repeat("😀", 1<<20),
	} {
		c := chatOf(t, body(message("user", text)))
		var n int64
		var took []time.Duration // a busy machine may stall: one of three is enough
		for len(took) == 0 || len(took) < 3 && slices.Min(took) > 2*time.Second {
			began := time.Now()
			n = CountPrompt(c)
			took = append(took, time.Since(began))
		}
		if slices.Min(took) > 2*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		if n < int64(len(text))/600 || n > int64(len(text)) {
			t.Errorf("%s: %d tokens in %d bytes", name, n, len(text))
		}
	}
	// By ratio, and near the truth.
	c := chatOf(t, body(message("user", strings.Repeat("the small river ", 100_000))))
	if n := CountPrompt(c); n < 299_000 || n > 301_000 {
		t.Errorf("%d tokens, of 300000", n)
	}
}

func TestTokensAreThoseOfTheVocabulary(t *testing.T) {
	text := strings.Repeat("The quick brown fox, über 東京! It's 12345 dollars.\n\nAnd so it goes on and on. ", 500)
	if got, want := CountTokens("o200k_base", []byte(text)), upstream.CountText(text); got != want {
		t.Errorf("%d tokens in pieces, %d at once", got, want)
	}
	if a, b := CountTokens("cl100k_base", []byte("東京東京東京")), CountTokens("o200k_base", []byte("東京東京東京")); a == b {
		t.Errorf("both vocabularies count %d", a)
	}
	if CountTokens("", nil) != 0 {
		t.Error("no text has no tokens")
	}
	// Text that cannot be cut well costs at most one token a piece.
	blob := strings.Repeat("QUJDRA==", 2000)
	if got, want := CountTokens("", []byte(blob)), upstream.CountText(blob); got < want ||
		got > want+int64(len(blob))/pieceBytes+1 {
		t.Errorf("%d tokens in pieces, %d at once", got, want)
	}
}

// The sealed bytes of a sealed content count: as much as a token a byte in the bound, a
// token for four in the estimate. Turns in the clear are counted.
func TestSealedContentsInTheBound(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("the small river moves past old stone houses ", 20)
	sealed := strings.Repeat("ab", seal.Overhead+len(text))
	open, closed := chatOf(t, body(message("system", text), message("user", text))),
		chatOf(t, body(message("system", sealed), message("user", sealed)))
	closed.Sealed = true
	upper, likely := EstimatePrompt(open, 85)
	if u, l := EstimatePrompt(closed, 85); u != upper || l != likely {
		t.Errorf("sealed: %d and %d, in the clear %d and %d", u, l, upper, likely)
	}
	bound, counted := BoundPrompt(closed, 85, 1250)
	if least := int64(2 * len(text)); bound < least || bound > upper || counted != 0 {
		t.Errorf("bound %d of %d, least %d; counted %d", bound, upper, least, counted)
	}
	fixed := int64(2*(messageTokens+roleTokens) + replyTokens)
	if n, want := CountPrompt(closed), int64(2*len(text)/tokenBytes)+fixed; n != want {
		t.Errorf("counted %d, want %d", n, want)
	}
	mixed := chatOf(t, body(message("assistant", text), message("user", sealed)))
	mixed.Sealed = true
	if n, want := CountPrompt(mixed), CountTokens("", []byte(text))+int64(len(text)/tokenBytes)+fixed; n != want {
		t.Errorf("beside a turn in the clear: counted %d, want %d", n, want)
	}
	// Content that only looks sealed counts as text if the request is not sealed.
	closed.Sealed = false
	if u, _ := EstimatePrompt(closed, 85); u < int64(2*len(sealed)) {
		t.Errorf("digits are free: %d", u)
	}
}
