package upstream

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A peer that leaves is noticed at once, whatever the answer was waiting for.
func TestPeerThatLeavesIsNoticedWithinMilliseconds(t *testing.T) {
	s, url := start(t, Options{})
	f := func(name, body string, readFirst bool, wantTokens int64) {
		t.Helper()
		s.Reset()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(body))
		client := &http.Client{Transport: &http.Transport{}}
		if readFirst {
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got := ""
			b := make([]byte, 4096)
			for strings.Count(got, `"content":"`)-1 < int(wantTokens) { // the first is the role event's
				n, err := resp.Body.Read(b)
				if err != nil {
					t.Fatal(err)
				}
				got += string(b[:n])
			}
		} else {
			go func() {
				if resp, err := client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			for s.truth.open.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(5 * time.Millisecond)
		}
		left := time.Now()
		cancel()
		st := settled(t, s)
		if len(st.Aborts) != 1 || st.Aborts[0].ID != name {
			t.Fatalf("%s: aborts %+v, outcomes %+v", name, st.Aborts, st.Outcomes)
		}
		if took := time.Unix(0, st.Aborts[0].NoticedNs).Sub(left); took > 3*time.Second {
			t.Errorf("%s: noticed after %v", name, took)
		}
		if st.Aborts[0].Tokens != wantTokens || st.Outcomes[Aborted].CompletionTokens != wantTokens {
			t.Errorf("%s: %d tokens written, want %d", name, st.Aborts[0].Tokens, wantTokens)
		}
	}
	f("hold", stream("hi [[sim id=hold hold_after=4]]"), true, 4)
	f("hang", stream("hi [[sim id=hang hang=1]]"), false, 0)
	f("delay", stream("hi [[sim id=delay delay_ms=60000]]"), false, 0)
	f("gap", stream("hi [[sim id=gap gap_ms=60000]]"), false, 0)
	f("plain", chatBody("sim-chat", "hi [[sim id=plain delay_ms=60000]]"), false, 0)
}

func TestServerClosesWithPeersStillWaiting(t *testing.T) {
	s, url := start(t, Options{})
	done := make(chan reply, 1)
	go func() { done <- post(t, url+"/v1/chat/completions", chatBody("sim-chat", "hi [[sim hang=1]]")) }()
	for s.truth.open.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if r := <-done; r.err == nil {
		t.Error("the request was answered")
	}
}
