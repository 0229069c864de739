package render

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"farebox/providers/scrape"
)

// maxRequests is how many a page may make.
const maxRequests = 600

// disarm removes interfaces that could bypass a proxy, before a page's own scripts run. The
// browser's flags do the same; a browser that an operator started may lack them.
const disarm = `for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "RTCDataChannel", "WebTransport",
  "UDPSocket", "TCPSocket"]) { try { Object.defineProperty(globalThis, name, {value: undefined}) } catch {} }`

// page loads one in a context of its own and reads its final state. end
// takes it away, and says whether the browser hangs and cannot be used on.
func (r *Renderer) page(ctx context.Context, b *browserRun, url string) (html []byte, final string, end func() bool,
	err error) {
	p := r.proxy.admit(ctx, r.o.Bytes)
	tab, leave := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(func(c *target.CreateBrowserContextParams) {
		c.ProxyServer, c.ProxyBypassList = r.o.Proxy, "<-loopback>"
	}))
	stop := context.AfterFunc(ctx, leave)
	hung := false
	end = func() bool {
		stop()
		p.end() // first: later requests of the page are refused
		gone := make(chan struct{})
		go func() {
			leave()
			close(gone)
		}()
		select {
		case <-gone:
			return hung || b.ctx.Err() != nil
		case <-time.After(endLimit):
			return true
		}
	}
	s := &session{tab: tab, pass: p, idle: make(chan struct{}, 1)}
	if err := s.prepare(r.o.Agent); err != nil {
		hung = ctx.Err() == nil
		return nil, "", end, fmt.Errorf("cannot open a page: %v", err)
	}
	html, final, err = s.load(ctx, url, r.o.Settle, r.o.MaxPage)
	return html, final, end, err
}

// session is one page's talk with the browser.
type session struct {
	tab      context.Context
	pass     *pass
	requests atomic.Int64
	frame    atomic.Pointer[cdp.Frame] // of the page itself, empty still
	status   atomic.Int64              // of the page's own document
	idle     chan struct{}             // the page has been quiet for a moment
}

// prepare has the page ask before each request, with the pass at hand.
func (s *session) prepare(agent string) error {
	if err := chromedp.Do(s.tab); err != nil {
		return err
	}
	if err := chromedp.Listen(s.tab, s.heard); err != nil {
		return err
	}
	yes := true
	if _, err := chromedp.Call(s.tab, fetch.Enable, fetch.EnableParams{HandleAuthRequests: &yes}); err != nil {
		return err
	}
	if _, err := chromedp.Call(s.tab, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: disarm}); err != nil {
		return err
	}
	if agent != "" {
		if _, err := chromedp.Call(s.tab, emulation.SetUserAgentOverride,
			emulation.SetUserAgentOverrideParams{UserAgent: agent}); err != nil {
			return err
		}
	}
	_, err := chromedp.CallBrowser(s.tab, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDeny, BrowserContextID: chromedp.FromContext(s.tab).BrowserContextID})
	return err
}

// heard answers the browser's questions. It must not wait for answers itself.
func (s *session) heard(ev any) {
	switch ev := ev.(type) {
	case *fetch.EventRequestPaused:
		go s.decide(ev)
	case *fetch.EventAuthRequired:
		go s.authorize(ev)
	case *page.EventJavascriptDialogOpening:
		go func() {
			_, _ = chromedp.Call(s.tab, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	case *network.EventResponseReceived:
		if f := s.frame.Load(); f != nil && ev.FrameID == f.ID && ev.Type == network.ResourceTypeDocument &&
			ev.Response != nil {
			s.status.Store(ev.Response.Status)
		}
	case *page.EventLifecycleEvent:
		// Quiet is the empty page, too, that was there before.
		if f := s.frame.Load(); f != nil && ev.FrameID == f.ID && ev.LoaderID != f.LoaderID && ev.Name == "networkIdle" {
			select {
			case s.idle <- struct{}{}:
			default:
			}
		}
	}
}

// decide lets requests through that text may depend on.
func (s *session) decide(ev *fetch.EventRequestPaused) {
	wanted := s.requests.Add(1) <= maxRequests && ev.Request != nil &&
		(strings.HasPrefix(ev.Request.URL, "http://") || strings.HasPrefix(ev.Request.URL, "https://"))
	switch ev.ResourceType {
	case network.ResourceTypeImage, network.ResourceTypeMedia, network.ResourceTypeFont, network.ResourceTypePing,
		network.ResourceTypeManifest, network.ResourceTypePrefetch, network.ResourceTypeCSPViolationReport,
		network.ResourceTypeTextTrack, network.ResourceTypeSignedExchange:
		wanted = false
	}
	if !wanted {
		_, _ = chromedp.Call(s.tab, fetch.FailRequest, fetch.FailRequestParams{RequestID: ev.RequestID,
			ErrorReason: network.ErrorReasonAccessDenied})
		return
	}
	_, _ = chromedp.Call(s.tab, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: ev.RequestID})
}

// authorize gives the pass to our proxy, and to no other server.
func (s *session) authorize(ev *fetch.EventAuthRequired) {
	answer := &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth}
	if ev.AuthChallenge != nil && ev.AuthChallenge.Source == fetch.AuthChallengeSourceProxy {
		answer = &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseProvideCredentials,
			Username: s.pass.user, Password: s.pass.password}
	}
	_, _ = chromedp.Call(s.tab, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{RequestID: ev.RequestID,
		AuthChallengeResponse: answer})
}

// result is the state of a page that read returns at the end.
type result struct {
	URL  string `json:"url"`
	HTML string `json:"html"`
}

const read = `({url: location.href,
  html: document.documentElement ? document.documentElement.outerHTML.slice(0, %d) : ""})`

// load opens a page and waits until it has been quiet for a moment, or long
// enough.
func (s *session) load(ctx context.Context, url string, settle time.Duration, most int64) (html []byte, final string,
	err error) {
	tree, err := chromedp.Call(s.tab, page.GetFrameTree, cdp.Empty{})
	if err != nil || tree.FrameTree == nil || tree.FrameTree.Frame == nil {
		return nil, "", errors.Join(errors.New("cannot find a page's frame"), err)
	}
	s.frame.Store(tree.FrameTree.Frame)
	to, err := chromedp.Call(s.tab, page.Navigate, page.NavigateParams{URL: url})
	switch {
	case err != nil:
		return nil, "", failed(ctx, err)
	case to.IsDownload:
		return nil, "", &scrape.Error{Reason: scrape.Unsupported}
	case to.ErrorText != "":
		return nil, "", &scrape.Error{Reason: scrape.Unreachable}
	}
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	select {
	case <-s.idle:
	case <-quiet.C:
	case <-ctx.Done():
		return nil, "", failed(ctx, ctx.Err())
	}
	if n := s.status.Load(); n >= http.StatusBadRequest {
		return nil, "", &scrape.Error{Reason: scrape.Status, Status: int(n)}
	}
	v, err := chromedp.Run(s.tab, chromedp.Evaluate[result](fmt.Sprintf(read, most)))
	if err != nil {
		return nil, "", failed(ctx, err)
	}
	return []byte(v.HTML), v.URL, nil
}

func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &scrape.Error{Reason: scrape.TooSlow}
	}
	// Not wrapped: that the browser ended is not that the client did.
	return fmt.Errorf("cannot read a page: %v", err)
}
