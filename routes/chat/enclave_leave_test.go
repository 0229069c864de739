package chat_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// "I left, came back with the same Idempotency-Key, and had it all for nothing": a client that
// leaves an encrypted chat has had its answer, as far as it went.
func TestLeavingAKeyedEncryptedChat(t *testing.T) {
	t.Parallel()
	s, events := startSlow(t)
	before := s.Balance()
	event := s.content(strings.Repeat("word", 10))
	body, headers := s.ask(s.one, "Hello", ""), s.headers(s.one)
	headers["Idempotency-Key"] = "k"
	go func() { events <- event }()
	res := s.open("/chat/completions", body, headers)
	if _, err := io.ReadFull(res.Body, make([]byte, len(event))); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	want := (7+2)*inputNano + 10*outputNano
	for end := time.Now().Add(time.Minute); before-s.Balance() != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("charged %s, want %s", before-s.Balance(), want)
		}
	}
	go func() { // a repeat that is executed has its answer
		for _, next := range []string{sealedEnd, theEnd} {
			select {
			case events <- next:
			case <-t.Context().Done():
			}
		}
	}()
	if status, _, answer := s.post("/chat/completions", body, headers); status != 409 ||
		gjson.Get(answer, "code").Str != "IDEMPOTENT_ANSWER_NOT_KEPT" {
		t.Errorf("%d %s", status, answer)
	}
	if spent := before - s.Balance(); spent != want {
		t.Errorf("charged %s in the end, want %s", spent, want)
	}
}
