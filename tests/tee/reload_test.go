package tee

import (
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
	"farebox/tests/rig"
)

// "I moved the model to another host, and for ten minutes it counted as verified": the
// proof of one host is not valid for another, whatever the upstream is called.
func TestAnotherHostProvesItself(t *testing.T) {
	t.Parallel()
	s := open(t, "", "").verified()
	s.Must(200, "POST", "/chat/completions", s.key, rig.Ask(model, "hello", ""), nil)
	other, err := enclave.New(enclave.Options{Share: s.enclaves[0], Key: "operator-key", Lie: enclave.Debug})
	if err != nil {
		t.Fatal(err)
	}
	at, err := other.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	line := s.config[strings.Index(s.config, "base_url: \""):]
	line = line[:strings.Index(line, ",")]
	s.WriteConfig(strings.Replace(s.config, line, `base_url: "`+at+`/v1"`, 1))
	s.Signal(rig.Hangup)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s.Post("/chat/completions", s.key, rig.Ask(model, "hello", ""))
	}
	rig.Await(t, "the host is asked no more", func() bool {
		status, _, _ := s.Post("/chat/completions", s.key, rig.Ask(model, "hello", ""))
		return status == 503
	})
	if n := len(other.Requests()); n != 0 {
		t.Errorf("an unverified host had %d chats", n)
	}
}
