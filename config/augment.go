package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Augment sells pages, searches and documents by the call (interface.md, Augment;
// addendum 12). What is not written is not offered.
type Augment struct {
	Scrape     *Scrape     `yaml:"scrape"`
	Search     *Search     `yaml:"search"`
	TextParser *TextParser `yaml:"text_parser"`
	// Chat is for chats that search and read pages before their model is asked.
	Chat *AugmentChat `yaml:"chat"`
}

// AugmentChat bounds what a search or pages put into the prompt of a chat. Who
// answers, and the prices, are those of Search and Scrape.
type AugmentChat struct {
	Tokens  int64 `yaml:"tokens"`  // of all that is put in; default 6000, 1000 to 200000
	Results int   `yaml:"results"` // of a search; default 5, 1 to 20
	// XPrice is for each result of an upstream's own search of X, XResults the most
	// that a request pays for: what an upstream tells beyond is the operator's.
	XPrice   Each `yaml:"x_price"`   // USD a result; default 0.01, 0 to 10000
	XResults int  `yaml:"x_results"` // default 20, 1 to 1000
}

func (c *AugmentChat) defaults() {
	*c = AugmentChat{Tokens: 6000, Results: 5, XPrice: callPrice, XResults: 20}
}

// InChat are the bounds that hold, written or not.
func (a *Augment) InChat() (c AugmentChat) {
	if c.defaults(); a.Chat != nil {
		c = *a.Chat
	}
	return c
}

// callPrice is what a call costs unless the operator says otherwise: 0.01 USD
// (addendum 12, 19.2).
const callPrice = 10_000_000_000

// defaultCalls is how many calls of an endpoint an account has (addendum 3.6).
var defaultCalls = Rate{RPM: 20}

// Scrape makes Markdown of a page. Its requests go where `fetch` allows.
type Scrape struct {
	Price Each `yaml:"price"` // USD a page; default 0.01, 0 to 10000
	Rate  Rate `yaml:"rate"`  // of an account; default rpm: 20
	// UserAgent is how the gateway names itself to sites.
	UserAgent string `yaml:"user_agent"`
	// Extractor finds the main content: readability (default), or trafilatura,
	// which finds a little more for twice the CPU.
	Extractor string `yaml:"extractor"`
	Robots    string `yaml:"robots"` // respect (default) or ignore robots.txt
	// Block are sites that are refused before anything is fetched, with all names
	// below them; default: large social networks, which show nothing to programs.
	// An empty list refuses none.
	Block []string `yaml:"block"`
	// Ports are those that links may name; default 80 and 443.
	Ports []int `yaml:"ports"`
	// Timeout is for all of a page, rendering apart; default 10s, 1s to 2m.
	Timeout time.Duration `yaml:"timeout"`
	MaxPage Size          `yaml:"max_page"` // decoded; default 3MB, 64KB to 64MB
	// MinText is how many characters a page must have; one with fewer is rendered
	// where that is set up. Default 200, 0 to 100000.
	MinText int `yaml:"min_text"`
	// Parallel is how many pages are fetched at once, PerHost of one host; others wait
	// for the turn of their account. Defaults 64 and 4.
	Parallel int         `yaml:"parallel"`
	PerHost  int         `yaml:"per_host"`
	Cache    ScrapeCache `yaml:"cache"`
	JS       ScrapeJS    `yaml:"js"`
}

// ScrapeCache keeps pages by their final address.
type ScrapeCache struct {
	Size Size          `yaml:"size"` // default 64MB; 0: off
	TTL  time.Duration `yaml:"ttl"`  // default 10m, 1s to 24h
}

// ScrapeJS renders pages that are empty without their scripts.
type ScrapeJS struct {
	// Engine is none (default), chromium, which is started by Path, or remote, a
	// browser that listens at URL (ws:// or http://). Either way all that a page
	// loads goes through the gateway, which lets nothing internal through.
	Engine string `yaml:"engine"`
	Path   string `yaml:"path"` // default: chromium, of the PATH
	URL    Secret `yaml:"url"`
	// Proxy is the host:port at which a remote browser reaches the gateway's guard;
	// default: a port of 127.0.0.1, for a browser on this machine.
	Proxy   string        `yaml:"proxy"`
	Timeout time.Duration `yaml:"timeout"` // of one page; default 15s, 1s to 2m
	Pages   int           `yaml:"pages"`   // at once; default 2, 1 to 64
}

func (s *Scrape) defaults() {
	*s = Scrape{
		Price: callPrice, Rate: defaultCalls, Extractor: "readability", Robots: "respect",
		UserAgent: "Mozilla/5.0 (compatible; farebox/1)",
		Ports:     []int{80, 443}, Timeout: 10 * time.Second, MaxPage: 3 << 20, MinText: 200,
		Parallel: 64, PerHost: 4, Cache: ScrapeCache{Size: 64 << 20, TTL: 10 * time.Minute},
		JS: ScrapeJS{Engine: "none", Path: "chromium", Timeout: 15 * time.Second, Pages: 2},
	}
}

// TextParser makes text of documents, in processes of its own that can neither
// reach the network nor files.
type TextParser struct {
	Price Each `yaml:"price"` // USD a document; default 0.01, 0 to 10000
	Rate  Rate `yaml:"rate"`  // of an account; default rpm: 60
	// Workers is how many documents and pages are read at once; others wait for the turn
	// of their account.
	// Default 2, 1 to 64. Each may have Memory (default 512MB, 128MB to 16GB) and
	// takes Timeout (default 20s, 1s to 5m) for a document at the most.
	Workers int `yaml:"workers"`
	// PerChild is after how many documents and pages a process is replaced: with 1, none
	// meets what another may have left. Default 200, 1 to 100000.
	PerChild int           `yaml:"per_child"`
	Memory   Size          `yaml:"memory"`
	Timeout  time.Duration `yaml:"timeout"`
	// PDF names what reads PDFs: builtin (default), pdftotext (the program at
	// Path) or tika (the server at URL, which gets every kind of document that is
	// not plain text).
	Engine string `yaml:"engine"`
	Path   string `yaml:"path"` // default: pdftotext, of the PATH
	URL    string `yaml:"url"`
	OCR    OCR    `yaml:"ocr"`
}

// OCR reads scans, which have no text of their own.
type OCR struct {
	Engine    string `yaml:"engine"`    // none (default) or tesseract
	Path      string `yaml:"path"`      // default: tesseract, of the PATH
	Languages string `yaml:"languages"` // as tesseract names them; default eng
	Pages     int    `yaml:"pages"`     // of a document; default 20, 1 to 1000
}

func (t *TextParser) defaults() {
	*t = TextParser{
		Price: callPrice, Rate: Rate{RPM: 60}, Workers: 2, PerChild: 200, Memory: 512 << 20, Timeout: 20 * time.Second,
		Engine: "builtin", Path: "pdftotext", OCR: OCR{Engine: "none", Path: "tesseract", Languages: "eng", Pages: 20},
	}
}

func (v *validator) augment() {
	if s := v.c.Augment.Scrape; s != nil {
		v.scrape("augment.scrape", s)
	}
	if s := v.c.Augment.Search; s != nil {
		v.search("augment.search", s)
	}
	if t := v.c.Augment.TextParser; t != nil {
		v.textParser("augment.text_parser", t)
	}
	if c := v.c.Augment.Chat; c != nil {
		whole(v, "augment.chat.tokens", c.Tokens, 1000, 200_000)
		whole(v, "augment.chat.results", c.Results, 1, 20)
		v.callPrice("augment.chat.x_price", c.XPrice)
		whole(v, "augment.chat.x_results", c.XResults, 1, 1000)
	}
}

// callPrice checks the price of a call.
func (v *validator) callPrice(path string, e Each) {
	v.each(path, e)
	if e == 0 && !v.bad[path] && v.at[path].node.text != freeRate {
		v.wrong(path, "all calls would be given away; expected their price, or price: free if that is meant")
	}
}

const maxBlocked = 10_000

var languages = regexp.MustCompile(`^[A-Za-z_]{2,40}(\+[A-Za-z_]{2,40}){0,9}$`)

func (v *validator) scrape(path string, s *Scrape) {
	v.callPrice(path+".price", s.Price)
	v.rate(path+".rate", s.Rate)
	if s.UserAgent == "" || len(s.UserAgent) > 256 || !plainASCII(s.UserAgent) {
		v.wrong(path+".user_agent", "sites read it in a header: expected 1 to 256 letters, digits and signs of ASCII")
	}
	v.oneOf(path+".extractor", s.Extractor, "readability", "trafilatura")
	v.oneOf(path+".robots", s.Robots, "respect", "ignore")
	if n := len(s.Block); n > maxBlocked {
		v.wrong(path+".block", "%d sites are listed; expected at most %d", n, maxBlocked)
	} else {
		for i, name := range s.Block {
			if !hostName.MatchString(name) || name != strings.ToLower(name) {
				at := fmt.Sprintf("%s.block[%d]", path, i)
				v.wrong(at, "%s is no site; expected a host name in lower case, such as example.com", v.shown(at))
			}
		}
	}
	if n := len(s.Ports); n == 0 || n > 100 {
		v.wrong(path+".ports", "%d ports are listed; expected 1 to 100", n)
	}
	for i, port := range s.Ports {
		whole(v, fmt.Sprintf("%s.ports[%d]", path, i), port, 1, 65535)
	}
	v.duration(path+".timeout", s.Timeout, time.Second, 2*time.Minute)
	size(v, path+".max_page", s.MaxPage, 64<<10, 64<<20)
	whole(v, path+".min_text", s.MinText, 0, 100_000)
	whole(v, path+".parallel", s.Parallel, 1, 10_000)
	whole(v, path+".per_host", s.PerHost, 1, 1000)
	if s.Cache.Size != 0 {
		size(v, path+".cache.size", s.Cache.Size, 1<<20, 64<<30)
	}
	v.duration(path+".cache.ttl", s.Cache.TTL, time.Second, 24*time.Hour)
	v.js(path+".js", &s.JS)
}

func (v *validator) js(path string, j *ScrapeJS) {
	v.oneOf(path+".engine", j.Engine, "none", "chromium", "remote")
	v.duration(path+".timeout", j.Timeout, time.Second, 2*time.Minute)
	whole(v, path+".pages", j.Pages, 1, 64)
	v.program(path+".path", j.Path)
	switch {
	case j.Engine == "remote":
		u, err := url.Parse(j.URL.Reveal())
		if err != nil || badHost(u) || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme) {
			v.wrong(path+".url", "no browser can be reached there; expected ws://host:port or http://host:port")
		}
	case j.URL != "":
		v.wrong(path+".url", "no remote browser is used; expected engine: remote beside it")
	}
	if j.Proxy != "" {
		v.address(path+".proxy", j.Proxy, false)
		if j.Engine != "remote" {
			v.wrong(path+".proxy", "no remote browser is used; expected engine: remote beside it")
		}
	}
}

func (v *validator) textParser(path string, t *TextParser) {
	v.callPrice(path+".price", t.Price)
	v.rate(path+".rate", t.Rate)
	whole(v, path+".workers", t.Workers, 1, 64)
	whole(v, path+".per_child", t.PerChild, 1, 100_000)
	size(v, path+".memory", t.Memory, 128<<20, 16<<30)
	v.duration(path+".timeout", t.Timeout, time.Second, 5*time.Minute)
	v.oneOf(path+".engine", t.Engine, "builtin", "pdftotext", "tika")
	v.program(path+".path", t.Path)
	switch {
	case t.Engine == "tika":
		v.baseURL(path+".url", t.URL)
	case t.URL != "":
		v.wrong(path+".url", "no server is asked; expected engine: tika beside it")
	}
	v.oneOf(path+".ocr.engine", t.OCR.Engine, "none", "tesseract")
	v.program(path+".ocr.path", t.OCR.Path)
	if !languages.MatchString(t.OCR.Languages) {
		v.wrong(path+".ocr.languages", "%s names no languages; expected such as eng or eng+deu",
			v.shown(path+".ocr.languages"))
	}
	whole(v, path+".ocr.pages", t.OCR.Pages, 1, 1000)
}

// program checks what is to be started: a name that is looked up in the PATH, or
// a whole path.
func (v *validator) program(path, name string) {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsRune(name, 0) ||
		strings.Contains(name, "/") && !filepath.IsAbs(name) {
		v.wrong(path, "%s cannot be started; expected the name of a program, or its whole path", v.shown(path))
	}
}

func plainASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
