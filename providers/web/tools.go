package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"time"

	"github.com/rs/zerolog"

	"farebox/config"
	"farebox/config/fair"
	"farebox/providers/fetch"
	"farebox/providers/jail"
	"farebox/providers/parse"
	"farebox/providers/scrape"
	"farebox/providers/scrape/render"
	"farebox/providers/search"
)

// Tools are the web tools of one config; those that it does not offer are nil.
type Tools struct {
	Pages     *scrape.Scraper
	Search    *search.Service
	Documents *Documents

	jail     *jail.Pool
	reuseKey reuseKey
	render   *render.Renderer
}

// reuseKey is the part of a config that the tools depend on: while it is unchanged, a reload
// keeps them and their cached pages.
type reuseKey struct {
	Scrape     *config.Scrape
	TextParser *config.TextParser
	Fetch      config.Fetch
	Store      string
}

// reuseKeyOf copies the part of a config. Prices and rates of calls are not in it.
func reuseKeyOf(cfg *config.Config) reuseKey {
	m := reuseKey{Fetch: cfg.Fetch, Store: cfg.Store}
	if c := cfg.Augment.Scrape; c != nil {
		of := *c
		of.Price, of.Rate = 0, config.Rate{}
		m.Scrape = &of
	}
	if c := cfg.Augment.TextParser; c != nil {
		of := *c
		of.Price, of.Rate = 0, config.Rate{}
		m.TextParser = &of
	}
	return m
}

// Work runs the jobs of a jailed child process, which parses untrusted input, and does not
// return. In any other process it does nothing.
func Work() {
	if !jail.IsChild("") {
		return
	}
	jobs := parse.Jobs()
	maps.Copy(jobs, scrape.Jobs())
	jail.Main(jobs, parse.Warm)
}

// Documents reads documents.
type Documents struct {
	parser *parse.Parser
	limit  time.Duration // of a document
	wait   time.Duration // for children, beside limit
	links  *fetch.Client
	linked *fair.Turns // of documents that are links: each is in memory whole
}

const (
	// linkLimit bounds the download of a document behind a link.
	linkLimit = 20 * time.Second
	// maxLinked is how many such documents there are at once, and linkedQueue how many
	// wait.
	maxLinked, linkedQueue = 16, 256
	// restart is how long the child of a piece of work that took too long needs to be
	// replaced, on a busy machine.
	restart = 5 * time.Second
)

// Longest is how long a document can take, with all waiting.
func (d *Documents) Longest() time.Duration { return d.wait + d.limit }

// LongestLinked is Longest for one that is a link. It may wait for another one, and for
// its fetch.
func (d *Documents) LongestLinked() time.Duration { return 2 * (2*linkLimit + d.Longest()) }

// Linked reads the document that a link leads to, of at most most bytes. The error is a
// *fetch.Error, or one of Text's.
func (d *Documents) Linked(ctx context.Context, link string, most int64) (parse.Text, error) {
	waits, cancel := context.WithTimeout(ctx, d.LongestLinked()/2)
	place, err := d.linked.Take(waits, fair.Of(ctx))
	cancel()
	switch {
	case err == nil:
		defer place.Done()
	case ctx.Err() != nil:
		return parse.Text{}, ctx.Err()
	default:
		return parse.Text{}, &fetch.Error{Reason: fetch.Busy}
	}
	doc, err := d.links.Get(ctx, link, most)
	if err != nil {
		return parse.Text{}, err
	}
	return d.Text(ctx, doc)
}

// Text reads a document. The error is a *parse.Error, or ctx's.
func (d *Documents) Text(ctx context.Context, doc []byte) (parse.Text, error) {
	whole, cancelWhole := context.WithTimeout(ctx, d.Longest())
	defer cancelWhole()
	ctx, cancel := fair.WithLimit(whole, d.limit)
	defer cancel()
	return d.parser.Text(ctx, doc)
}

// New makes the tools of a config. before are those that are in use, nil at first:
// unchanged tools are kept, and so are the children, whose number and memory
// are those of the first config that had some.
func New(cfg *config.Config, before *Tools, log zerolog.Logger) (*Tools, error) {
	t := &Tools{reuseKey: reuseKeyOf(cfg)}
	a := &cfg.Augment
	if a.Search != nil {
		var old *search.Service
		if before != nil {
			old = before.Search
		}
		service, err := search.New(a.Search, old)
		if err != nil {
			return nil, err
		}
		t.Search = service
	}
	if before != nil && reflect.DeepEqual(t.reuseKey, before.reuseKey) {
		t.Pages, t.Documents, t.jail, t.render = before.Pages, before.Documents, before.jail, before.render
		return t, nil
	}
	if a.Scrape == nil && a.TextParser == nil {
		return t, nil
	}
	if before != nil {
		t.jail = before.jail
	}
	if t.jail == nil {
		t.jail = newJail(cfg, log)
	}
	if err := t.make(cfg, log); err != nil {
		t.Close(before)
		return nil, err
	}
	return t, nil
}

// make makes the readers of documents and pages.
func (t *Tools) make(cfg *config.Config, log zerolog.Logger) error {
	a := &cfg.Augment
	if c := a.TextParser; c != nil {
		o := parse.Options{Languages: c.OCR.Languages, Scans: c.OCR.Pages}
		var err error
		if c.Engine == "pdftotext" {
			if o.PDFToText, err = program(c.Path); err != nil {
				return fmt.Errorf("augment.text_parser.path: %w", err)
			}
		}
		if c.OCR.Engine == "tesseract" {
			if o.Tesseract, err = program(c.OCR.Path); err != nil {
				return fmt.Errorf("augment.text_parser.ocr.path: %w", err)
			}
		}
		links := fetch.New(fetch.Options{Allow: config.Prefixes(cfg.Fetch.Allow), Deny: config.Prefixes(cfg.Fetch.Deny),
			Limit: linkLimit, Parallel: maxLinked})
		// A scan is many pieces of work, and the timeout is for each.
		t.Documents = &Documents{parse.New(t.jail, o), 2 * c.Timeout, c.Timeout + restart, links,
			fair.NewTurns(maxLinked, linkedQueue)}
	}
	if a.Scrape == nil {
		return nil
	}
	c := a.Scrape
	fetcher := fetch.New(fetch.Options{
		Allow: config.Prefixes(cfg.Fetch.Allow), Deny: config.Prefixes(cfg.Fetch.Deny), Limit: c.Timeout,
		Parallel: 2 * c.Parallel, PerHost: c.PerHost, Ports: ports(c.Ports),
	})
	o := scrape.Options{
		Fetch: fetcher, Jail: t.jail, MinText: c.MinText, Agent: c.UserAgent, IgnoreRobots: c.Robots == "ignore",
		Ports: ports(c.Ports), Allow: config.Prefixes(cfg.Fetch.Allow),
		Parallel: c.Parallel, MaxPage: int64(c.MaxPage), Cache: int64(c.Cache.Size), TTL: c.Cache.TTL,
	}
	if c.Block != nil {
		o.Blocked = []scrape.Site{} // an empty list replaces the usual ones
	}
	for _, host := range c.Block {
		o.Blocked = append(o.Blocked, scrape.Site{Host: host})
	}
	if t.Documents != nil {
		o.Document = func(ctx context.Context, doc []byte) (string, error) {
			text, err := t.Documents.Text(ctx, doc)
			var refusal *parse.Error
			if errors.As(err, &refusal) && refusal.Reason == parse.TooSlow {
				err = &scrape.Error{Reason: scrape.TooSlow}
			} else if errors.As(err, &refusal) && !refusal.Client() {
				err = &scrape.Error{Reason: scrape.Busy}
			}
			return text.Text, err
		}
	}
	longest := c.Timeout
	if js := &c.JS; js.Engine != "none" {
		r := render.Options{Fetch: fetcher, Listen: js.Proxy, Agent: c.UserAgent, Refuse: scrape.Refuse(o.Blocked),
			Parallel: js.Pages, Limit: js.Timeout, MaxPage: int64(c.MaxPage), Log: log}
		var err error
		if js.Engine == "remote" {
			r.Remote = js.URL.Reveal()
		} else if r.Path, err = program(js.Path); err != nil {
			return fmt.Errorf("augment.scrape.js.path: %w", err)
		}
		if t.render, err = render.New(r); err != nil {
			return fmt.Errorf("augment.scrape.js: %w", err)
		}
		o.Renderer = t.render
		longest += js.Timeout
	}
	o.Limit = longest // each hop has the fetcher's own
	o.Wait = max(longest, t.jail.Limit()) + restart
	pages, err := scrape.New(o)
	if err != nil {
		return fmt.Errorf("augment.scrape: %w", err)
	}
	t.Pages = pages
	return nil
}

// newJail starts the children. Beside an embedded ledger they cache for the next start what
// compiles slowly.
func newJail(cfg *config.Config, log zerolog.Logger) *jail.Pool {
	o := jail.Options{Cache: filepath.Join(cfg.LedgerDir(), "jail"), Log: log}
	if err := os.MkdirAll(o.Cache, 0o700); err != nil {
		log.Warn().Err(err).Msg("children that read documents start slowly: their cache cannot be written")
		o.Cache = ""
	}
	if c := cfg.Augment.TextParser; c != nil {
		o.Workers, o.Jobs, o.Memory, o.Limit, o.CPU = c.Workers, c.PerChild, int64(c.Memory), c.Timeout, c.Timeout
	}
	return jail.New(o)
}

// program finds the program to start.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("cannot start %s: %w; install it, or name its whole path", name, err)
	}
	return path, nil
}

func ports(list []int) (ports []uint16) {
	for _, p := range list {
		ports = append(ports, uint16(p))
	}
	return ports
}

// WriteMetrics writes the metrics of search services and of the children.
func (t *Tools) WriteMetrics(w io.Writer) {
	if t.Search != nil {
		t.Search.WriteMetrics(w)
	}
	if t.jail == nil {
		return
	}
	_, _ = fmt.Fprintf(w, "# TYPE farebox_jail_jobs gauge\nfarebox_jail_jobs %d\n# TYPE farebox_jail_children_total counter\n"+
		"farebox_jail_children_total %d\n# TYPE farebox_jail_deaths_total counter\nfarebox_jail_deaths_total %d\n",
		t.jail.Waiting(), t.jail.Started(), t.jail.Died())
}

// Close ends the tools that next, which may be nil, does not take over.
func (t *Tools) Close(next *Tools) {
	var to Tools
	if next != nil {
		to = *next
	}
	if t.Search != nil && t.Search != to.Search {
		t.Search.Close(to.Search)
	}
	var err error
	if t.Pages != nil && t.Pages != to.Pages {
		err = t.Pages.Close()
	}
	if t.render != nil && t.render != to.render {
		err = errors.Join(err, t.render.Close())
	}
	if t.jail != nil && t.jail != to.jail {
		err = errors.Join(err, t.jail.Close())
	}
	_ = err // an error at the end loses nothing
}
