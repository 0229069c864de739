package render

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"
	"github.com/rs/zerolog"

	"farebox/config/fair"
	"farebox/providers/fetch"
	"farebox/providers/scrape"
)

// The defaults of Options.
const (
	defaultParallel = 2
	defaultIdle     = time.Minute
	defaultSettle   = 4 * time.Second
	defaultBytes    = 24 << 20
	defaultPage     = 3 << 20
	defaultMemory   = 1 << 30
	defaultListen   = "127.0.0.1:0"
)

const (
	// waiters is how many pages may wait for each that there is.
	waiters = 16
	// startLimit is how long a browser may take to be there.
	startLimit = 20 * time.Second
	// maxPages is after how many a browser is replaced: they grow.
	maxPages = 200
	// endLimit is how long a page may take to be gone. One whose script never ends
	// takes its browser along.
	endLimit = 5 * time.Second
)

// Options of a Renderer. Fetch has to be there, and one of Path and Remote.
type Options struct {
	Fetch *fetch.Client
	// Path is the Chromium to start. Remote is the DevTools address of one that
	// runs elsewhere (ws:// or http://): it must be able to reach Listen, by the
	// address in Proxy where that is another than Listen's own, and should run with
	// --force-webrtc-ip-handling-policy=disable_non_proxied_udp.
	Path, Remote, Listen, Proxy string
	// NoSandbox starts Chromium without its own sandbox, where the system cannot run that.
	NoSandbox bool
	// Agent is the user agent that pages see.
	Agent string
	// Refuse says which hosts are not asked, beside those of Fetch.
	Refuse func(host string) error
	// Parallel is how many pages there are at once; 0: 2.
	Parallel int
	// Limit is how long one page may take, of a browser that has started and is free;
	// 0: as long as the caller waits.
	Limit time.Duration
	// Settle is how long a page may go on loading after it is there; 0: 4s.
	Settle time.Duration
	// Idle is after how long without pages the browser is ended; 0: 1m.
	Idle time.Duration
	// Bytes bounds the traffic of one page, 0: 24 MB; MaxPage is how large its
	// HTML may be, 0: 3 MB.
	Bytes, MaxPage int64
	// Memory bounds the private memory of the browser's processes, 0: 1 GB. On
	// Linux only.
	Memory int64
	Log    zerolog.Logger
}

// Renderer is a scrape.Renderer. Safe for concurrent use.
type Renderer struct {
	o     Options
	proxy *guardProxy
	turns *fair.Turns

	mu     sync.Mutex
	now    *browserRun // may be nil
	closed bool
	ending sync.WaitGroup
}

// browserRun is one browser while it runs. Its fields are under Renderer.mu, but for ctx.
type browserRun struct {
	ctx    context.Context // of chromedp
	kill   context.CancelFunc
	ready  chan struct{} // closed when it has started or failed to
	err    error         // then
	active int           // pages
	served int
	idle   *time.Timer
}

// New makes a Renderer; its browser starts with the first page.
func New(o Options) (*Renderer, error) {
	if o.Fetch == nil || (o.Path == "") == (o.Remote == "") {
		return nil, errors.New("cannot render: a fetcher, and either a path or a remote browser, are needed")
	}
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.Settle = cmp.Or(o.Settle, defaultSettle)
	o.Idle = cmp.Or(o.Idle, defaultIdle)
	o.Bytes = cmp.Or(o.Bytes, defaultBytes)
	o.MaxPage = cmp.Or(o.MaxPage, defaultPage)
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	o.Listen = cmp.Or(o.Listen, defaultListen)
	proxy, err := newProxy(o.Fetch, o.Listen, o.Refuse)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the browser's pages: %w", err)
	}
	o.Proxy = cmp.Or(o.Proxy, local(proxy.listen))
	return &Renderer{o: o, proxy: proxy, turns: fair.NewTurns(o.Parallel, waiters*o.Parallel)}, nil
}

// Render gives a page's HTML after its scripts have run, and where it is by then.
func (r *Renderer) Render(ctx context.Context, url string) (html []byte, final string, err error) {
	place, err := r.turns.Take(ctx, fair.Of(ctx))
	if err != nil {
		return nil, "", &scrape.Error{Reason: scrape.Busy}
	}
	b, err := r.acquireBrowser(ctx)
	if err != nil {
		place.Done()
		return nil, "", err
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if r.o.Limit > 0 {
		limited, cancel = fair.WithLimit(ctx, r.o.Limit)
	}
	html, final, end, err := r.page(limited, b, url)
	if err != nil && limited.Err() != nil {
		err = limited.Err()
	}
	go func() { // a page takes half a second to close, and no caller need wait
		r.releaseBrowser(b, end())
		cancel()
		place.Done()
	}()
	return html, final, err
}

// Close ends the browser and waits for it.
func (r *Renderer) Close() error {
	r.mu.Lock()
	r.closed = true
	if r.now != nil {
		r.drop(r.now)
	}
	r.mu.Unlock()
	err := r.proxy.close()
	r.ending.Wait()
	return err
}

// acquireBrowser finds the browser, or starts it, and counts one page more.
func (r *Renderer) acquireBrowser(ctx context.Context) (*browserRun, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, errors.New("cannot render: closed")
	}
	b := r.now
	if b == nil || b.served >= maxPages || b.ctx.Err() != nil {
		if b != nil && b.active == 0 {
			r.drop(b)
		}
		b = r.start()
		r.now = b
	}
	r.ending.Add(1)
	b.active++
	b.served++
	if b.idle != nil {
		b.idle.Stop()
	}
	r.mu.Unlock()
	select {
	case <-b.ready:
		if b.err != nil {
			r.releaseBrowser(b, true)
			return nil, b.err
		}
		return b, nil
	case <-ctx.Done():
		r.releaseBrowser(b, false)
		return nil, ctx.Err()
	}
}

// releaseBrowser counts one page less. A browser that hangs, or is used up, gets no more and
// ends with its last one.
func (r *Renderer) releaseBrowser(b *browserRun, hung bool) {
	defer r.ending.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	b.active--
	if hung && b == r.now {
		r.now = nil
	}
	switch {
	case b.active == 0 && b != r.now:
		r.drop(b)
	case b.active == 0:
		b.idle = time.AfterFunc(r.o.Idle, func() { r.rest(b) })
	}
}

// rest ends a browser that still has no pages.
func (r *Renderer) rest(b *browserRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.active == 0 && !r.closed {
		r.drop(b)
	}
}

// drop is for callers that hold mu.
func (r *Renderer) drop(b *browserRun) {
	if r.now == b {
		r.now = nil
	}
	if b.idle != nil {
		b.idle.Stop()
	}
	r.ending.Go(b.kill)
}

// start is for callers that hold mu.
func (r *Renderer) start() *browserRun {
	b := &browserRun{ready: make(chan struct{})}
	var all context.Context
	var end context.CancelFunc
	dir := ""
	if r.o.Remote != "" {
		all, end = remote.NewAllocator(context.Background(), r.o.Remote)
	} else {
		var err error
		if dir, err = os.MkdirTemp("", "farebox-browser-"); err == nil {
			err = chownFolder(dir)
		}
		if err != nil {
			b.err = fmt.Errorf("cannot make the browser's folder: %w", err)
		}
		all, end = chromedp.NewExecAllocator(context.Background(), r.flags(dir)...)
	}
	ctx, cancel := chromedp.NewContext(all, chromedp.WithErrorf(func(f string, a ...any) {
		r.o.Log.Debug().Msgf("the browser: "+f, a...)
	}))
	b.ctx = ctx
	var once sync.Once
	b.kill = func() {
		once.Do(func() {
			end()
			cancel()
			if dir != "" {
				_ = os.RemoveAll(dir)
			}
		})
	}
	go func() {
		defer close(b.ready)
		if b.err != nil {
			return
		}
		late := time.AfterFunc(startLimit, b.kill)
		defer late.Stop()
		if err := chromedp.Do(ctx); err != nil {
			b.err = fmt.Errorf("cannot start the browser: %v", err)
			r.o.Log.Error().Err(err).Msg("cannot start the browser for pages")
			return
		}
		if c := chromedp.FromContext(ctx); c.Browser != nil && c.Browser.Process() != nil {
			go r.watch(b, c.Browser.Process().Pid)
		}
	}()
	return b
}

// watchEvery is how often the browser's memory is looked at.
const watchEvery = 500 * time.Millisecond

// watch ends a browser that takes too much memory.
func (r *Renderer) watch(b *browserRun, pid int) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		}
		if has := memory(pid); has > r.o.Memory {
			r.o.Log.Warn().Int64("bytes", has).Msg("the browser took too much memory and was ended")
			r.mu.Lock()
			r.drop(b)
			r.mu.Unlock()
			return
		}
	}
}

// flags are the arguments of a browser, beside those of every driven one.
func (r *Renderer) flags(dir string) []chromedp.ExecAllocatorOption {
	list := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(
		chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(r.o.Path), chromedp.UserDataDir(dir), chromedp.ModifyCmdFunc(confine),
		chromedp.NoInheritEnv, chromedp.Env("HOME="+dir, "LANG=C.UTF-8"))
	for name, value := range map[string]any{
		// Without the second, requests to this very machine would not go through the
		// proxy.
		"proxy-server": r.o.Proxy, "proxy-bypass-list": "<-loopback>",
		// UDP would not either.
		"disable-quic": true, "force-webrtc-ip-handling-policy": "disable_non_proxied_udp",
		"dns-prefetch-disable": true, "no-pings": true, "disable-component-update": true, "disable-domain-reliability": true,
		"disable-gpu": true, "mute-audio": true, "hide-scrollbars": true, "disable-popup-blocking": false,
		"deny-permission-prompts": true, "block-new-web-contents": true, "disable-notifications": true,
		"js-flags": "--max-old-space-size=256", "renderer-process-limit": fmt.Sprint(2 * r.o.Parallel),
		"disable-remote-fonts": true, "blink-settings": "imagesEnabled=false", "disable-speech-api": true,
		"disable-features": "Translate,BlinkGenPropertyTrees,OptimizationHints,MediaRouter,AutofillServerCommunication," +
			"WebUSB,WebBluetooth,DirectSockets,Prerender2",
		"no-sandbox": r.o.NoSandbox,
	} {
		list = append(list, chromedp.Flag(name, value))
	}
	return list
}
