package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Round is one kind of attack.
type Round struct {
	Name string
	What string // in a sentence
	// Rate is the default number a second.
	Rate float64
	// open is how long a socket is kept; 0: until its answer.
	open time.Duration
	most int // sockets at once
	// drip reads the answer drop by drop for as long.
	drip time.Duration
	// gone is the time after which the client leaves; 0: it stays.
	gone time.Duration
	do   func(a *attacker) []byte
	// needs is the model or network that it cannot do without; may be nil.
	needs func(o *Options) string
	// crowds says that many unpaid accounts can do it, too.
	crowds bool
	// from is the address of request n, for the proxy in front of the gateway; nil: the
	// attacker has one, and a paid account.
	from func(n int) string
	// operator says that the operators' API is attacked.
	operator bool
}

func (o *Options) network() string  { return o.RPC }
func (o *Options) speaker() string  { return o.Voice }
func (o *Options) listener() string { return o.Ear }
func (o *Options) composer() string { return o.Song }

const (
	manyDots    = 1 << 20
	announced   = 30 << 20
	keepSockets = 20 * time.Second
	mostSockets = 256
	longSpeech  = 4000 // characters
)

// Rounds are all attacks of one client, with or without a key. AllRounds has those of crowds and on the operators'
// API, too.
var (
	Rounds    = slices.Concat(Lies, takings)
	AllRounds = slices.Concat(Rounds, crowded(), onOperator)
)

// Lies are rounds with false statements.
var Lies = []Round{
	{Name: "dots", What: "a member's name of a million dots, which errors echo", Rate: 2, do: func(a *attacker) []byte {
		return a.post("/image/generate", a.o.Attacker, fmt.Appendf(nil, `{"prompt":"x",%q:1}`, strings.Repeat(".", manyDots)))
	}},
	{Name: "announced", What: "bodies of 30 MB that are announced, without a key, and never sent", Rate: 5,
		open: keepSockets, most: mostSockets, do: func(a *attacker) []byte {
			return fmt.Appendf(nil, "POST %s/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: "+
				"application/json\r\nContent-Length: %d\r\n\r\n{\"model\":", a.base.Path, a.base.Host, announced)
		}},
	{Name: "random_keys", What: "keys that nobody has", Rate: 200, do: func(a *attacker) []byte {
		return a.post("/chat/completions", a.prefix()+rand.Text()+rand.Text()[:12],
			chatBody(a.o.Model, "tokens=1", false, nil))
	}},
	{Name: "rpc_texts", What: "JSON-RPC params whose words nodes echo in errors: method not found, rate limit, quota",
		Rate: 20, needs: (*Options).network, do: func(a *attacker) []byte {
			calls := []string{
				`"debug_traceCall","params":[{"to":"0x1"},"latest",{"tracer":"{step:function(){throw 'the method debug_traceCall does not exist: method not found'}}"}]`,
				`"eth_feeHistory","params":["rate limit exceeded, too many requests","latest",[]]`,
				`"eth_call","params":[{"to":"0x1","data":"revert:usage limit and quota exceeded"},"latest"]`,
			}
			body := `{"jsonrpc":"2.0","id":1,"method":` + calls[a.next()%len(calls)] + "}"
			return a.post("/crypto/rpc/"+a.o.RPC, a.o.Attacker, []byte(body))
		}},
	{Name: "limited", What: "requests that the upstream answers with 429 and Retry-After: 120", Rate: 5,
		do: func(a *attacker) []byte {
			return a.post("/chat/completions", a.o.Attacker,
				chatBody(a.o.Model, "status=429 retry_after=120", false, nil))
		}},
	{Name: "strays", What: "answers that the upstream sends twice on its connection", Rate: 20,
		do: func(a *attacker) []byte {
			return a.post("/chat/completions", a.o.Attacker, chatBody(a.o.Model, "echo=attacker stray=0", false, nil))
		}},
	{Name: "users", What: "failing requests, each with another `user`", Rate: 20, do: func(a *attacker) []byte {
		return a.post("/chat/completions", a.o.Attacker, chatBody(a.o.Model, "status=400", false,
			map[string]any{"user": rand.Text()}))
	}},
	{Name: "odd_heads", What: "heads that two servers read differently: no Host, bare LF, Transfer-Encoding: " +
		"identity, two keys", Rate: 8, do: func(a *attacker) []byte {
		body := chatBody(a.o.Model, "tokens=1", false, nil)
		whole := a.post("/chat/completions", a.o.Attacker, body)
		auth := "Authorization: Bearer " + a.o.Attacker + "\r\n"
		switch a.next() % 4 {
		case 0:
			return bytes.Replace(whole, []byte("Host: "+a.base.Host+"\r\n"), nil, 1)
		case 1:
			return bytes.ReplaceAll(whole, []byte("\r\n"), []byte("\n"))
		case 2:
			return bytes.Replace(whole, []byte("\r\n\r\n"), []byte("\r\nTransfer-Encoding: identity\r\n\r\n"), 1)
		}
		return bytes.Replace(whole, []byte(auth), []byte(auth+"Authorization: Bearer "+a.o.Keys[0]+"\r\n"), 1)
	}},
	{Name: "stopped_readers", What: "long streams that nobody reads", Rate: 5, open: keepSockets, most: mostSockets,
		do: func(a *attacker) []byte {
			return a.post("/chat/completions", a.o.Attacker,
				chatBody(a.o.Model, "tokens=200000 events_per_write=64 ignore_cap=1", true,
					map[string]any{"max_completion_tokens": 4000}))
		}},
	{Name: "unread_speech", What: "long texts spoken to nobody, who keeps the socket", Rate: 5, open: keepSockets,
		most: mostSockets, needs: (*Options).speaker, do: func(a *attacker) []byte {
			return a.post("/audio/speech", a.o.Attacker, fmt.Appendf(nil,
				`{"model":%q,"voice":"alloy","response_format":"wav","streaming":true,"input":%q}`, a.o.Voice,
				strings.Repeat("word ", longSpeech/5)))
		}},
	{Name: "hostile_sound", What: "files with ten thousand streams to be written down", Rate: 5,
		needs: (*Options).listener, do: func(a *attacker) []byte { return a.form(a.o.Ear, manyStreams()) }},
	{Name: "unseen_jobs", What: "tracks that are ordered and never asked for", Rate: 20,
		needs: (*Options).composer, do: func(a *attacker) []byte {
			return a.post("/audio/queue", a.o.Attacker, fmt.Appendf(nil,
				`{"model":%q,"prompt":"[[sim polls=1000]] rain on a roof","duration_seconds":5}`, a.o.Song))
		}},
}

// RoundsNamed finds rounds by name; no names: all rounds whose needs o meets.
func RoundsNamed(names []string, o *Options) ([]Round, error) {
	var list []Round
	can := func(r *Round) bool { return r.needs == nil || r.needs(o) != "" }
	for _, r := range AllRounds {
		if len(names) == 0 && can(&r) {
			list = append(list, r)
		}
	}
	for _, want := range names {
		name, rate, rated := strings.Cut(want, "=")
		found := false
		for _, r := range AllRounds {
			if r.Name != name {
				continue
			}
			if rated {
				if _, err := fmt.Sscanf(rate, "%g", &r.Rate); err != nil || r.Rate <= 0 || r.Rate > maxRate {
					return nil, fmt.Errorf("cannot use the round %q: a rate above 0 and up to %d is needed", want,
						maxRate)
				}
			}
			if !can(&r) {
				return nil, fmt.Errorf("cannot run %s without what it needs: give --rpc, --voice, --ear, --song, --strict, "+
					"--documents, --pages, --unpaid, --forwarded or --operator", name)
			}
			list, found = append(list, r), true
		}
		if !found {
			known := make([]string, len(AllRounds))
			for i := range AllRounds {
				known[i] = AllRounds[i].Name
			}
			return nil, fmt.Errorf("cannot run the round %q: known are %s", name, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// Assault is the outcome of a round.
type Assault struct {
	Name    string           `json:"name"`
	Rate    float64          `json:"rate"`
	Sent    int64            `json:"sent"`
	Through int64            `json:"let_through"` // answered 2xx
	Skipped int64            `json:"skipped"`     // all sockets were taken
	Status  map[string]int64 `json:"status"`
	Largest int64            `json:"largest_answer_bytes"`
	SlowMs  float64          `json:"slowest_ms"`
}

// attacker runs a round.
type attacker struct {
	*arena
	round Round
	serial
	sockets chan struct{}

	mu  sync.Mutex
	sum Assault
}

type serial struct{ n atomic.Int64 }

func (s *serial) next() int { return int(s.n.Add(1)) }

// post is a request as bytes.
func (a *arena) post(path, key string, body []byte) []byte {
	head := fmt.Appendf(nil,
		"POST %s%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: Bearer "+
			"%s\r\nContent-Length: %d\r\n\r\n", a.base.Path, path, a.base.Host, key, len(body))
	return append(head, body...)
}

// form is a request for a transcription of a file.
func (a *arena) form(model string, file []byte) []byte {
	const boundary = "farebox-attack-form"
	body := fmt.Appendf(nil, "--%s\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n%s\r\n--%s\r\n"+
		"Content-Disposition: form-data; name=\"file\"; filename=\"a.ogg\"\r\n\r\n", boundary, model, boundary)
	body = fmt.Appendf(append(body, file...), "\r\n--%s--\r\n", boundary)
	return bytes.Replace(a.post("/audio/transcriptions", a.o.Attacker, body), []byte("application/json"),
		[]byte("multipart/form-data; boundary="+boundary), 1)
}

// manyStreams is a file of Ogg with ten thousand streams.
var manyStreams = sync.OnceValue(func() (file []byte) {
	for i := range uint32(10_000) {
		page := append([]byte("OggS\x00\x02"), make([]byte, 20)...)
		binary.LittleEndian.PutUint32(page[14:], i)
		file = append(append(file, page...), 1, 19)
		file = append(file, "OpusHead\x01\x01\x00\x00\x80\xbb\x00\x00\x00\x00\x00"...)
	}
	return file
})

// prefix is how keys of this gateway begin, so that random ones look like them.
func (a *arena) prefix() string {
	key := a.o.Keys[0]
	if i := strings.LastIndexAny(key[:max(0, len(key)-20)], "_-"); i > 0 {
		return key[:i+1]
	}
	return ""
}

// run sends at the round's rate until ctx ends, and waits for open requests.
func (a *attacker) run(ctx context.Context) Assault {
	most := a.round.most
	if most == 0 {
		most = mostSockets
	}
	a.sockets = make(chan struct{}, most)
	a.sum = Assault{Name: a.round.Name, Rate: a.round.Rate, Status: map[string]int64{}}
	var open sync.WaitGroup
	tick := time.NewTicker(time.Duration(float64(time.Second) / a.round.Rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			continue
		case <-tick.C:
		}
		select {
		case a.sockets <- struct{}{}:
			open.Go(func() {
				defer func() { <-a.sockets }()
				a.one(ctx)
			})
		default:
			a.mu.Lock()
			a.sum.Skipped++
			a.mu.Unlock()
		}
	}
	open.Wait()
	return a.sum
}

// one sends one request on a socket of its own.
func (a *attacker) one(ctx context.Context) {
	began := time.Now()
	status, size := a.send(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum.Sent++
	a.sum.Status[status]++
	if strings.HasPrefix(status, "2") {
		a.sum.Through++
	}
	a.sum.Largest = max(a.sum.Largest, size)
	if a.round.open == 0 {
		a.sum.SlowMs = max(a.sum.SlowMs, float64(time.Since(began))/1e6)
	}
}

func (a *attacker) send(ctx context.Context) (status string, size int64) {
	address := a.address
	if a.round.operator {
		address = a.operator.Host
	}
	conn, err := net.DialTimeout("tcp", address, a.o.Timeout)
	if err != nil {
		return "not connected", 0
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(a.o.Timeout + a.round.open + a.round.drip))
	request := a.round.do(a)
	if a.round.from != nil {
		request = bytes.Replace(request, []byte("\r\nHost:"),
			[]byte("\r\nX-Forwarded-For: "+a.round.from(a.next())+"\r\nHost:"), 1)
	}
	if _, err := conn.Write(request); err != nil {
		return "refused while sending", 0
	}
	in := bufio.NewReader(conn)
	if a.round.gone > 0 {
		_ = conn.SetReadDeadline(time.Now().Add(a.round.gone))
		if res, err := http.ReadResponse(in, nil); err == nil {
			return fmt.Sprint(res.StatusCode), 0
		}
		return "left", 0
	}
	if a.round.open > 0 {
		// Hold the socket; only the head of an answer is read.
		if res, err := http.ReadResponse(in, nil); err == nil {
			wait(ctx, a.round.open)
			return fmt.Sprint(res.StatusCode), 0
		}
		return "held", 0
	}
	if a.round.drip > 0 {
		_ = conn.(*net.TCPConn).SetReadBuffer(dripWindow)
	}
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		return "no answer", 0
	}
	if a.round.drip > 0 {
		return fmt.Sprint(res.StatusCode), a.dripFrom(ctx, res.Body)
	}
	n, _ := io.Copy(io.Discard, res.Body)
	return fmt.Sprint(res.StatusCode), n
}
