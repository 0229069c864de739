package rpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"farebox/proxy"
)

// pieces feeds a response in pieces of a size.
func inPieces(j *Judge, response string, size int) bool {
	j.Reset()
	for from := 0; from < len(response); from += size {
		if !j.Write([]byte(response[from:min(from+size, len(response))])) {
			return false
		}
	}
	return j.Complete()
}

// However a response is cut up, its answers, ids and errors are found.
func TestJudgeReadsAnyPieces(t *testing.T) {
	response := ` [{"jsonrpc":"2.0","id":"a\"\\","result":{"id":5,"x":"\\\"}{[","y":[1,{"error":null}]}}, {"id" : 12 ,"error":{"code":-32000,"message":"no \"}\" funds"}},` +
		`{"result":null,"id":null},{"result":null,"error":{"code":3},"id":7},{"x":1,"result":"x"}] ` + "\n"
	var j Judge
	for size := 1; size <= len(response); size++ {
		if !inPieces(&j, response, size) || !j.Array || len(j.Answers) != 5 {
			t.Fatalf("in pieces of %d: complete %v, %d answers", size, j.Complete(), len(j.Answers))
		}
		for i, want := range []struct {
			id, err string
			failed  bool
		}{{`"a\"\\"`, "", false}, {"12", `{"code":-32000,"message":"no \"}\" funds"}`, true}, {"null", "", false},
			{"7", `{"code":3}`, true}, {"", "", false}} {
			a := &j.Answers[i]
			if string(j.ID(i)) != want.id || string(j.Error(i)) != want.err || a.Failed() != want.failed {
				t.Errorf("in pieces of %d: answer %d has id %q, error %q", size, i, j.ID(i), j.Error(i))
			}
			if got := response[a.From:a.To]; got[0] != '{' || !json.Valid([]byte(got)) || want.id != "" &&
				response[a.IDFrom:a.IDTo] != want.id {
				t.Errorf("in pieces of %d: answer %d is %q with id %q", size, i, got, response[a.IDFrom:a.IDTo])
			}
		}
	}
}

// Broken, garbled or wrong answers are never complete.
func TestJudgeRefuses(t *testing.T) {
	good := `{"jsonrpc":"2.0","id":1,"result":{"a":["}",{}]}}`
	var j Judge
	if !inPieces(&j, good, 3) {
		t.Fatal("the good one is refused")
	}
	for n := range len(good) {
		if inPieces(&j, good[:n], 4) {
			t.Errorf("%q is taken as complete", good[:n])
		}
	}
	for _, bad := range []string{
		// Other parsers read these as an error beside the result, or do not read them at all.
		`{"id":1,"result":1,"\u0065rror":{"code":1}}`, `{"id":1,"result":1,"ERROR":{"code":1}}`, `{"Id":1,"result":1}`,
		"{\"id\":1,\"result\":\"a\x00b\"}", "{\"id\":1,\"result\":[\"a long string with a\nline\"]}",
		"{\"id\":1,\"result\":[1,\x01 2]}", "{\"id\":1,\"result\":[\"\\\"\x1f\"]}", "{\"id\":1,\"a\tb\":1,\"result\":1}",
		good + "x", good + good, good + ",", `{}`, `{"id":1}`, `{"id":1,"result":[}]}`, `{"id":1,"result":{]}}`,
		`{"id":[1],"result":1}`, `{"id":1 "result":1}`,
		`{"id":1,"result":1,}`, `{"id":1,"result":}`, `[1]`, `[{"id":1,"result":1},]`, `[,]`,
		`{"id":1,"result":1,"result":2}`, `{"id":1,"result":null,"result":2}`, `{"id":1,"error":null,"error":{}}`,
		`{"id":1,"result":1,"id":1}`, `{"id":1,"result":` + strings.Repeat("[", 5000), `"x"`, `null`, `<html>`,
	} {
		for _, size := range []int{1, 2, 1000} {
			if inPieces(&j, bad, size) {
				t.Errorf("%.60q is taken as complete", bad)
			}
		}
	}
	if !inPieces(&j, "[]", 1) || len(j.Answers) != 0 {
		t.Error("an empty array is whole, and has no answers")
	}
}

// A large answer gets the client's id wherever the node has its own, and
// however the answer is cut up.
func TestLensPutsTheClientsID(t *testing.T) {
	for response, ours := range map[string]bool{
		`{"jsonrpc":"2.0","id":4503599627370496,"result":[{"id":9},"1"]}`:        true,
		`{"jsonrpc":"2.0","result":[{"id":9},"1"],"id":4503599627370496}` + "\n": true,
		`{"id" : 4503599627370496 ,"result":[{"id":9},"1"]}`:                     true,
		`{"id" : "4503599627370496" ,"result":[{"id":9},"1"]}`:                   false,
		`{"jsonrpc":"2.0","result":[{"id":9},"1"]} `:                             false,
		`{"result":[{"id":9},"1"],"id":null}`:                                    false,
		`{"id":4503599627370497,"result":[{"id":9},"1"]}`:                        false,
		`{"id":7,"result":[{"id":9},"1"]}`:                                       false,
	} {
		for size := 1; size <= len(response)+1; size++ {
			job := &Job{main: &attempt{first: 4503599627370496, patches: make([]proxy.Patch, 1)}}
			whole := false
			l := lens{job: job, id: []byte(`"client \u00e9"`), end: func(_ proxy.Cause, good bool) { whole = good }}
			var out bytes.Buffer
			for from := 0; from < len(response); from += size {
				p, stop := l.Pass([]byte(response[from:min(from+size, len(response))]))
				if stop {
					t.Fatalf("%q in pieces of %d is stopped", response, size)
				}
				out.Write(p)
			}
			if _, clean := l.End(proxy.None); clean != ours || whole != ours {
				t.Errorf("%q in pieces of %d: whole is %v", response, size, whole)
			}
			var got struct {
				ID     json.RawMessage
				Result json.RawMessage
			}
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || string(got.ID) != `"client \u00e9"` ||
				string(got.Result) != `[{"id":9},"1"]` || strings.Count(out.String(), `client`) != 1 {
				t.Fatalf("%q in pieces of %d becomes %q", response, size, out.String())
			}
		}
	}
}

// The judge and the scan accept only bodies that encoding/json accepts, as far as they look.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"result":"0x"}`, `[{"id":1,"error":{"code":1,"message":"\""}}]`,
		`{"result":null,"id":"\\"}`, `[]`} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, response []byte, size int) {
		var whole, cut Judge
		whole.Write(response)
		complete := inPieces(&cut, string(response), 1+size&7)
		if whole.Complete() != complete || len(whole.Answers) != len(cut.Answers) && complete {
			t.Fatalf("%q is judged otherwise in pieces", response)
		}
		if json.Valid(response) || !complete {
			return
		}
		// Below the envelope only brackets and strings are checked, so that some bodies
		// that are not JSON may pass; but never a truncated one.
		for i := range whole.Answers {
			a := &whole.Answers[i]
			if response[a.From] != '{' || response[a.To-1] != '}' {
				t.Fatalf("%q: answer %d is %q", response, i, response[a.From:a.To])
			}
		}
	})
}

// A request that is accepted is JSON, and so is the body for the node.
func FuzzScan(f *testing.F) {
	g := newGenerator(5)
	for range 20 {
		f.Add([]byte(g.envelope(true)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Request
		if r.Scan(body) != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("%q is taken, and no JSON", body)
		}
		sent := r.sentBy(new(attempt))
		if !json.Valid(sent) {
			t.Fatalf("%q would be sent as %q", body, sent)
		}
		for i := range r.Calls {
			if !json.Valid(r.ID(i)) {
				t.Fatalf("the id of call %d of %q is %q", i, body, r.ID(i))
			}
		}
	})
}
