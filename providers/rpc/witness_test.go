package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"farebox/proxy"
)

// A node that is asked as a witness gives its result or an error, whatever it
// answers, in bounded time and memory.
func TestWitnessesAnswerOrFail(t *testing.T) {
	hang := make(chan struct{})
	answers := map[string]func(w http.ResponseWriter, id string){
		"good": func(w http.ResponseWriter, id string) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"a":[1]}}`, id)
		},
		"error": func(w http.ResponseWriter, id string) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":3,"message":"execution reverted"}}`, id)
		},
		"page":   func(w http.ResponseWriter, id string) { _, _ = io.WriteString(w, "<html>") },
		"failed": func(w http.ResponseWriter, id string) { http.Error(w, "no", http.StatusServiceUnavailable) },
		"lies about its status": func(w http.ResponseWriter, id string) {
			w.WriteHeader(500)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":1}`, id)
		},
		"another id": func(w http.ResponseWriter, id string) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s0,"result":1}`, id) },
		"a batch":    func(w http.ResponseWriter, id string) { fmt.Fprintf(w, `[{"jsonrpc":"2.0","id":%s,"result":1}]`, id) },
		"half":       func(w http.ResponseWriter, id string) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"a"`, id) },
		"endless": func(w http.ResponseWriter, id string) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":"`, id)
			block := strings.Repeat("a", 64<<10)
			for range 1 << 14 { // 1 GB
				if _, err := io.WriteString(w, block); err != nil {
					return
				}
			}
		},
		"announced as endless": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Length", "1073741824")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":"`, id)
		},
		"silent": func(w http.ResponseWriter, id string) { <-hang },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, rest, _ := strings.Cut(string(body), `"id":`)
		id, _, _ := strings.Cut(rest, ",")
		answers[strings.ReplaceAll(strings.TrimPrefix(r.URL.Path, "/"), "_", " ")](w, id)
	}))
	defer server.Close()
	defer close(hang)
	p := proxy.New(proxy.Options{Tick: 20 * time.Millisecond})
	defer p.Close()
	for name := range answers {
		all, err := NewNetworks(parsed(t, fmt.Sprintf("        - { name: a, url: %q, without: [eth_getLogs] }\n",
			server.URL+"/"+strings.ReplaceAll(name, " ", "_"))), nil)
		if err != nil {
			t.Fatal(err)
		}
		node := all.Find("base-mainnet").Witnesses()[0]
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		began := time.Now()
		got, err := node.Call(ctx, p, "eth_call", `[]`, 1<<10)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		var said *CallError
		switch {
		case name == "good":
			if err != nil || string(got) != `{"a":[1]}` {
				t.Errorf("%s: %s %v", name, got, err)
			}
		case name == "error":
			if !errors.As(err, &said) || said.Code != 3 || said.Message != "execution reverted" {
				t.Errorf("%s: %s %v", name, got, err)
			}
		case err == nil || errors.As(err, &said):
			t.Errorf("%s is believed: %s %v", name, got, err)
		}
		if _, err := node.Call(ctx, p, "eth_getLogs", `[]`, 1<<10); !errors.Is(err, errDenied) {
			t.Errorf("a method that the node does not serve: %v", err)
		}
		cancel()
		if _, err := node.Call(ctx, p, "eth_call", `[]`, 1<<10); err == nil {
			t.Errorf("%s answers a client that left", name)
		}
		all.Close(nil)
	}
}

// A node on another chain is not a witness, and one that rests is asked last.
func TestWitnessesAreOfTheChain(t *testing.T) {
	all, err := NewNetworks(parsed(t, "        - { name: a, url: \"http://127.0.0.1:1\" }\n"+
		"        - { name: b, url: \"http://127.0.0.1:2\", breaker: { failures: 1 } }\n"+
		"        - { name: c, url: \"http://127.0.0.1:3\" }\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close(nil)
	n := all.Find("base-mainnet")
	n.Nodes[0].odd.Store(true)
	n.Nodes[1].Breaker.Failed(time.Now().UnixNano(), 0)
	if got := n.Witnesses(); len(got) != 2 || got[0].Name != "c" || got[1].Name != "b" {
		t.Errorf("the witnesses are %v", got)
	}
}
