package security

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// selfSigned is a certificate for 127.0.0.1 and the file of it.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	dir := t.TempDir()
	rig.Certificate(t, dir)
	file := filepath.Join(dir, "cert.pem")
	pair, err := tls.LoadX509KeyPair(file, filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return pair, file
}

// straying is an upstream that sends every answer twice: the second time alone, on a
// connection without a request. sent gets a value when that is done.
func straying(t *testing.T, secure *tls.Config, together bool) (addr string, sent chan struct{}) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	t.Cleanup(func() { _ = ln.Close() })
	sent = make(chan struct{}, 16)
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		for r := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			words := strings.SplitN(string(body), "marker-", 2)
			if len(words) < 2 {
				return
			}
			text := fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"marker-%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10}}`, words[1][:6])
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				len(text), text)
			if together && secure == nil {
				answer += answer
			}
			_, err = io.WriteString(c, answer)
			if !together {
				time.Sleep(200 * time.Microsecond)
			}
			if err == nil && (!together || secure != nil) { // a record of its own
				_, err = io.WriteString(c, answer)
			}
			sent <- struct{}{}
			if err != nil {
				return
			}
		}
	}
	go acceptAll(ln, serve)
	return ln.Addr().String(), sent
}

// An answer that is on a connection before the next request is sent there goes to no
// client: of 600 that strayed, some 180 once went to other accounts.
func TestStrayAnswersAreGivenToNobody(t *testing.T) {
	t.Parallel()
	certificate, file := selfSigned(t)
	f := func(name string, secure *tls.Config, together bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, sent := straying(t, secure, together)
			upstream := "http://" + addr
			if secure != nil {
				upstream = "https://" + addr + `", ca_file: "` + file
			}
			g := rig.StartGateway(t, fmt.Sprintf(`
log: { level: warn, format: json }
upstreams:
  - { name: only, base_url: "%s", breaker: { failures: 0 } }
models:
  - { id: m, tier: unlimited, context_tokens: 8192, price: free, targets: [{ upstream: only }] }
`, upstream))
			g.NewAccount("a", "1")
			g.NewAccount("b", "1")
			keys := []string{g.Key("a"), g.Key("b")}
			pauses := []time.Duration{0, 0, 0, time.Millisecond, 3 * time.Millisecond, 6 * time.Millisecond}
			for i := range 1000 {
				mark := fmt.Sprintf("marker-%06d", i)
				status, _, answer := g.Post("/chat/completions", keys[i%2],
					`{"model":"m","messages":[{"role":"user","content":"`+mark+`"}]}`)
				if status != 200 || !strings.Contains(string(answer), mark) {
					t.Fatalf("request %d of key %d was answered %d %s", i, i%2, status, answer)
				}
				<-sent
				time.Sleep(pauses[i%len(pauses)])
			}
		})
	}
	secure := &tls.Config{Certificates: []tls.Certificate{certificate}}
	f("right behind the answer", nil, true)
	f("a moment later", nil, false)
	f("over TLS, right behind the answer", secure, true)
	f("over TLS, a moment later", secure, false)
}

// stuttering is an upstream that sends every third answer again, 0 to 5 ms later. The
// text of an answer is the question. conns counts its connections. late are the questions
// whose second answer a busy machine held back longer.
func stuttering(t *testing.T) (addr string, conns *atomic.Int64, late *sync.Map) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	conns, late = new(atomic.Int64), new(sync.Map)
	var answers atomic.Int64
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		for r := bufio.NewReader(c); ; {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			text := fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
				`"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,`+
				`"completion_tokens":5,"total_tokens":10}}`, gjson.GetBytes(body, "messages.0.content").Raw)
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				len(text), text)
			if _, err = io.WriteString(c, answer); err == nil && answers.Add(1)%3 == 0 {
				first := time.Now()
				time.Sleep(time.Duration(mathrand.IntN(5000)) * time.Microsecond)
				if time.Since(first) > 7*time.Millisecond {
					return
				}
				question := gjson.GetBytes(body, "messages.0.content").Str
				late.Store(question, true)
				if _, err = io.WriteString(c, answer); time.Since(first) < 9*time.Millisecond {
					late.Delete(question)
				}
			}
			if err != nil {
				return
			}
		}
	}
	go acceptAll(ln, func(c net.Conn) {
		conns.Add(1)
		serve(c)
	})
	return ln.Addr().String(), conns, late
}

// acceptAll serves each connection until the listener is closed.
func acceptAll(ln net.Listener, serve func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go serve(c)
	}
}

func TestALateSecondAnswerReachesNoOtherAccount(t *testing.T) { stutter(t, 3000) }

func TestLongLateSecondAnswersReachNoOtherAccount(t *testing.T) {
	stutter(t, int64(servers.Campaign(10_000)))
}

func stutter(t *testing.T, requests int64) {
	t.Parallel()
	const accounts = 4
	addr, conns, late := stuttering(t)
	g := rig.StartGateway(t, fmt.Sprintf(`
log: { level: warn, format: json }
upstreams:
  - { name: only, base_url: "http://%s", breaker: { failures: 0 } }
models:
  - { id: m, tier: unlimited, context_tokens: 8192, price: free, targets: [{ upstream: only }] }
`, addr))
	var asked, astray, own atomic.Int64
	var wg sync.WaitGroup
	for i := range accounts {
		name := fmt.Sprint("account-", i)
		g.NewAccount(name, "1")
		for key, client := g.Key(name), 0; client < 2; client++ { // the second one changes nothing for others
			wg.Go(func() {
				for n := asked.Add(1); n <= requests; n = asked.Add(1) {
					question := fmt.Sprintf("%s asks %d", name, n)
					status, _, answer := g.Post("/chat/completions", key,
						`{"model":"m","messages":[{"role":"user","content":"`+question+`"}]}`)
					switch text := gjson.GetBytes(answer, "choices.0.message.content").String(); {
					case status != 200:
						t.Errorf("%s: status %d %s", question, status, answer)
					case !strings.HasPrefix(text, name):
						time.Sleep(10 * time.Millisecond) // until its sender knows how late it was
						if _, is := late.Load(text); !is {
							astray.Add(1)
						}
					case text != question:
						own.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("of %d answers %d reached another account, %d another request of the same account; %d connections",
		requests, astray.Load(), own.Load(), conns.Load())
	if astray.Load() > 0 {
		t.Errorf("%d of %d answers reached another account", astray.Load(), requests)
	}
}
