package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of one run.
type Options struct {
	URL         string   // base with /v1, or the full address of the endpoint
	Path        string   // below the base; default /chat/completions
	Key         string   // bearer key, may be empty
	Headers     []string // more of them, as "Name: value"
	Model       string
	Stream      bool
	BodyBytes   int           // size of the request body; default 1024
	MaxTokens   int           // max_completion_tokens; 0: not sent
	Body        []byte        // sent instead of a body made from the above
	Rate        float64       // arrivals a second; 0: closed, every connection sends when it is free
	Connections int           // default 64
	Duration    time.Duration // measured time; default 10s
	Least       int64         // requests to end; the measured time goes on for them to Longest at most
	Longest     time.Duration // measured time where Least is not reached within Duration
	Warmup      time.Duration // sent before it and not counted
	Ramp        time.Duration // connections of the closed mode start spread over this time
	Timeout     time.Duration // of one request; default 30s; streams: between two reads
	Abort       float64       // share of streams left by the client
	AbortAfter  int           // events it reads before that
	FirstByte   bool          // the time to the first byte of the body of whole answers is measured, too
	ReadBuffer  int           // of a connection; default and least 8 KB
	PIDs        []int         // processes to watch, with their children
	Mates       []int         // processes of the harness, which do not count as other programs
	Progress    func(done float64, line string)
}

const (
	defaultConnections = 64
	defaultDuration    = 10 * time.Second
	defaultTimeout     = 30 * time.Second
	defaultBodyBytes   = 1024
	maxConnections     = 60000
	maxBacklog         = 1 << 20 // arrivals that may wait for a free connection
	progressEvery      = 200 * time.Millisecond
	leastEvery         = 5 * time.Millisecond
)

// run is the state the workers share.
type run struct {
	o        Options
	to       *url.URL
	request  []byte
	shards   []*recorder
	workers  []*worker
	measured atomic.Bool // counts go into the result
	stop     atomic.Bool
	begun    time.Time // start of the measured time
	serial   atomic.Uint64
	dialing  chan struct{}

	mu      sync.Mutex
	clients map[*Conn]struct{}
}

// Run sends requests as the options say and gives the measurements. An error
// means that nothing could be measured; errors of single requests are counted
// in the result.
func Run(ctx context.Context, o Options) (*Result, error) {
	r, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := r.probe(); err != nil {
		return nil, err
	}
	var pace *pacer
	if r.o.Rate > 0 {
		if pace, err = newPacer(r.o.Rate); err != nil {
			return nil, fmt.Errorf("cannot pace the arrivals: %w", err)
		}
	}
	var workers sync.WaitGroup
	for i := range r.o.Connections {
		workers.Add(1)
		w := &worker{run: r, rec: r.shards[i%len(r.shards)], pace: pace}
		if pace == nil && r.o.Ramp > 0 {
			w.startIn = r.o.Ramp * time.Duration(i) / time.Duration(r.o.Connections)
		}
		r.workers = append(r.workers, w)
		go func() {
			defer workers.Done()
			w.loop()
		}()
	}
	result := r.measure(ctx, pace)
	r.stop.Store(true)
	if pace != nil {
		pace.stop()
		result.Lateness = distribution(pace.lateness)
		result.Unsent = pace.unsent()
	}
	r.closeAll()
	workers.Wait()
	return result, ctx.Err()
}

func prepare(o Options) (*run, error) {
	if o.Connections == 0 {
		o.Connections = defaultConnections
	}
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.BodyBytes == 0 {
		o.BodyBytes = defaultBodyBytes
	}
	switch {
	case o.Connections < 0 || o.Connections > maxConnections:
		return nil, fmt.Errorf("cannot use %d connections: 1 to %d", o.Connections, maxConnections)
	case o.Rate < 0:
		return nil, fmt.Errorf("cannot use a rate of %g: requests a second, or 0 for as fast as possible", o.Rate)
	case o.Model == "" && o.Body == nil:
		return nil, errors.New("cannot make a request without a model: give one with --model")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("cannot use the address %q: write it like http://127.0.0.1:8080/v1", o.URL)
	}
	r := &run{o: o, to: u, clients: map[*Conn]struct{}{}, dialing: make(chan struct{}, 64)}
	path := strings.TrimSuffix(u.Path, "/")
	if o.Path == "" {
		o.Path = "/chat/completions"
	}
	if !strings.HasSuffix(path, o.Path) {
		path += o.Path
	}
	r.request = requestBytes(u.Host, path, o)
	for range min(o.Connections, 16) {
		r.shards = append(r.shards, newRecorder())
	}
	return r, nil
}

// probe makes one connection, so that a wrong address is one error before the run.
func (r *run) probe() error {
	c, err := r.dial()
	if err != nil {
		return fmt.Errorf("cannot reach %s: %w; is the server running there?", r.to.Host, err)
	}
	r.drop(c)
	return nil
}

// measure waits through warm-up and measured time and collects the result.
func (r *run) measure(ctx context.Context, pace *pacer) *Result {
	r.wait(ctx, r.o.Warmup, "warm-up")
	procs := Watch(r.o.PIDs, r.o.Mates...)
	r.begun = time.Now()
	r.measured.Store(true)
	if pace != nil {
		pace.measured.Store(true)
	}
	r.wait(ctx, r.o.Duration, "")
	r.waitLeast(ctx)
	elapsed := time.Since(r.begun)
	r.measured.Store(false)
	usage := procs.Stop()
	result := r.collect(elapsed)
	if usage != nil {
		result.Process = usage.per(result.Requests, result.Events)
	}
	return result
}

func (r *run) wait(ctx context.Context, d time.Duration, what string) {
	start := time.Now()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var before int64
	for {
		left := d - time.Since(start)
		if left <= 0 || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(left, progressEvery)):
		}
		if r.o.Progress == nil {
			continue
		}
		var requests, failed int64
		for _, s := range r.shards {
			requests += s.requests.Load()
			failed += s.failed.Load()
		}
		line := what
		if what == "" {
			line = fmt.Sprintf("%.0f req/s, %d errors", float64(requests-before)/progressEvery.Seconds(), failed)
		}
		before = requests
		r.o.Progress(min(1, float64(time.Since(start))/float64(max(d, 1))), line)
	}
}

// waitLeast extends the measured time until enough of the requests that were begun in
// it have ended: on a busy machine a large answer may take longer than all of it.
func (r *run) waitLeast(ctx context.Context) {
	enough := func() bool {
		var ended int64
		for _, s := range r.shards {
			ended += s.whole.Load() + s.failed.Load()
		}
		return ended >= r.o.Least
	}
	for time.Since(r.begun) < r.o.Longest && ctx.Err() == nil && !enough() {
		time.Sleep(leastEvery)
	}
}

func (r *run) collect(elapsed time.Duration) *Result {
	all := newRecorder()
	for _, s := range r.shards {
		all.merge(s)
	}
	result := all.result(r.o, r.begun, elapsed)
	end := r.begun.Add(elapsed).UnixNano()
	for _, w := range r.workers {
		if since := w.busy.Load(); since > 0 && since < end {
			result.Unfinished++
			result.OldestUs = max(result.OldestUs, float64(end-since)/1e3)
		}
	}
	return result
}

// requestBytes is the whole request; every worker sends the same.
func requestBytes(host, path string, o Options) []byte {
	body := o.Body
	if body == nil {
		body = chatBody(o)
	}
	head := "POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\n"
	if o.Key != "" {
		head += "Authorization: Bearer " + o.Key + "\r\n"
	}
	for _, line := range o.Headers {
		head += line + "\r\n"
	}
	head += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
	return append([]byte(head), body...)
}

// chatBody is a chat request of the wanted size. The model and stream members are first, so
// that a simulated upstream finds them without a parse.
func chatBody(o Options) []byte {
	head := `{"model":"` + o.Model + `","stream":`
	if o.Stream {
		head += `true,"stream_options":{"include_usage":true}`
	} else {
		head += `false`
	}
	if o.MaxTokens > 0 {
		head += fmt.Sprintf(`,"max_completion_tokens":%d`, o.MaxTokens)
	}
	head += `,"temperature":0.7,"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`
	const tail = `"}]}`
	const words = "Tell me about the river, its boats and the market at the long road north. "
	fill := max(1, o.BodyBytes-len(head)-len(tail))
	return []byte(head + strings.Repeat(words, fill/len(words)+1)[:fill] + tail)
}

func (r *run) dial() (*Conn, error) {
	r.dialing <- struct{}{} // a burst of thousands of connects would overflow the listen queue
	defer func() { <-r.dialing }()
	c, err := Dial(r.to, r.o.Timeout, r.o.ReadBuffer)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop.Load() {
		c.Close()
		return nil, net.ErrClosed
	}
	r.clients[c] = struct{}{}
	return c, nil
}

func (r *run) drop(c *Conn) {
	c.Close()
	r.mu.Lock()
	delete(r.clients, c)
	r.mu.Unlock()
}

// closeAll ends requests that are still under way after the measured time.
func (r *run) closeAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.clients {
		c.Close()
	}
}

// Each calls do for 1 to n, so many at once, until ctx ends. worker numbers the callers, from 0.
func Each(ctx context.Context, n, atOnce int, do func(worker, i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for worker := range min(n, max(1, atOnce)) {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil; i = next.Add(1) {
				do(worker, int(i))
			}
		})
	}
	all.Wait()
}
