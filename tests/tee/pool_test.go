package tee

import (
	"testing"

	"farebox/bench/upstream/enclave"
)

// One upstream has several enclaves, and its report shows all of them. Another node may
// have named any of them to a client; each node learns them from its own proof.
func TestEnclavesBehindOneUpstreamAreAllKnown(t *testing.T) {
	t.Parallel()
	s := open(t, "", "")
	front := s.enclaves[0]
	var others []*enclave.Enclave
	for range 3 {
		e, err := enclave.New(enclave.Options{Share: front})
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, e)
	}
	others[1].Tell(enclave.Debug)
	front.Fronts(others...)
	s.verified()
	for i, e := range append(others, front) {
		c := meets(t, e.Public())
		res, stream := c.chats(s, s.key, []turn{{"user", "hello"}}, "")
		if i == 1 {
			if res.StatusCode != 400 || len(e.Requests()) != 0 {
				t.Errorf("one that can be debugged is asked: %d %s", res.StatusCode, stream)
			}
			continue
		}
		if text, id, _ := c.reads(stream); res.StatusCode != 200 || text != "You said hello." || len(e.Requests()) != 1 {
			t.Errorf("enclave %d: %d %s", i, res.StatusCode, stream)
		} else if !s.signature(s.key, id).Get("server_verification.signer_attested").Bool() {
			t.Errorf("enclave %d signs as a stranger", i)
		}
	}
}
