package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Augment sells pages, searches and documents by the call (interface.md, Augment;
// addendum 12). A nil group is not offered.
type Augment struct {
	// POST /augment/scrape makes Markdown of a page. fetch says where its requests may go.
	Scrape *Scrape `yaml:"scrape"`
	// POST /augment/search searches the web.
	Search *Search `yaml:"search"`
	// POST /augment/text-parser makes text of documents, in processes with neither network nor files.
	TextParser *TextParser `yaml:"text_parser"`
	// Searches and pages in chats, at the prices of search and scrape.
	Chat *AugmentChat `yaml:"chat"`
}

// AugmentChat limits what searches and pages add to the prompt of a chat. Services
// and prices are those of Search and Scrape.
type AugmentChat struct {
	// Most tokens that searches and pages add to a prompt. The hold covers them.
	Tokens int64 `yaml:"tokens" default:"6000" range:"1000..200000"`
	// Results of a search.
	Results int `yaml:"results" default:"5" range:"1..20"`
	// What becomes of the marks ^1^ of citations. auto: they leave the text where the client's form of answers has
	// annotations, which are /responses, /messages and OpenAI's packages; keep; remove. Annotations come in any case.
	Marks string `yaml:"citation_marks" default:"auto" oneof:"auto keep remove"`
	// USD for each result that an upstream found on X, or free.
	XPrice Each `yaml:"x_price" default:"0.01" range:"0..10000"`
	// Most of these results that a request pays for. The hold covers them; the operator pays for more.
	XResults int `yaml:"x_results" default:"20" range:"1..1000"`
}

// InChat are the bounds that hold, written or not.
func (a *Augment) InChat() AugmentChat {
	if a.Chat != nil {
		return *a.Chat
	}
	return usualChat()
}

var usualChat = sync.OnceValue(Default[AugmentChat])

// Scrape makes Markdown of a page. Its requests go where `fetch` allows.
type Scrape struct {
	// USD a page, or free.
	Price Each `yaml:"price" default:"0.01" range:"0..10000"`
	// Limit of an account; rpm: 0 for no limit.
	Rate Rate `yaml:"rate" default:"rpm: 20"`
	// How the gateway names itself to sites.
	UserAgent string `yaml:"user_agent" default:"Mozilla/5.0 (compatible; farebox/1)"`
	// respect or ignore robots.txt.
	Robots string `yaml:"robots" default:"respect" oneof:"respect ignore"`
	// Sites that are refused at once, with all names below them. An empty list refuses none. Default: large social
	// networks, which show nothing to programs.
	Block []string `yaml:"block" most:"10000 sites"`
	// Ports that links may name, 1 to 100 of them.
	Ports []int `yaml:"ports" default:"80 443" range:"1..65535"`
	// Time for all of a page, without rendering.
	Timeout time.Duration `yaml:"timeout" default:"10s" range:"1s..2m"`
	// Decoded page.
	MaxPage Size `yaml:"max_page" default:"3MB" range:"64KB..64MB"`
	// Characters that a page must have. A page with fewer is rendered where js is set up.
	MinText int `yaml:"min_text" default:"200" range:"0..100000"`
	// Pages that are fetched at once. Others wait for the turn of their account.
	Parallel int `yaml:"parallel" default:"64" range:"1..10000"`
	// Pages of one host that are fetched at once.
	PerHost int `yaml:"per_host" default:"4" range:"1..1000"`
	// Pages that are kept by their final address.
	Cache ScrapeCache `yaml:"cache"`
	// Rendering of pages that are empty without their scripts. All they load passes the guard of fetch.
	JS ScrapeJS `yaml:"js"`
}

// ScrapeCache keeps pages by their final address.
type ScrapeCache struct {
	// Memory of all pages; 0: off.
	Size Size `yaml:"size" default:"64MB" range:"1MB..64GB|0"`
	// How long a page is kept.
	TTL time.Duration `yaml:"ttl" default:"10m" range:"1s..24h"`
}

// ScrapeJS renders pages that are empty without their scripts.
type ScrapeJS struct {
	// none; chromium, a browser that is started by path; remote, a browser that listens at url.
	Engine string `yaml:"engine" default:"none" oneof:"none chromium remote"`
	// Program for engine: chromium, found in the PATH or by its whole path.
	Path string `yaml:"path" default:"chromium"`
	// Address of the browser for engine: remote, ws:// or http://. Logs do not show it.
	URL Secret `yaml:"url"`
	// host:port at which a remote browser reaches the gateway's guard. Default: a free port of 127.0.0.1.
	Proxy string `yaml:"proxy"`
	// Time for one page.
	Timeout time.Duration `yaml:"timeout" default:"15s" range:"1s..2m"`
	// Pages that are rendered at once.
	Pages int `yaml:"pages" default:"2" range:"1..64"`
}

// TextParser makes text of documents, in processes of its own that can neither
// reach the network nor files.
type TextParser struct {
	// USD a document, or free.
	Price Each `yaml:"price" default:"0.01" range:"0..10000"`
	// Limit of an account; rpm: 0 for no limit.
	Rate Rate `yaml:"rate" default:"rpm: 60"`
	// Documents and pages that are read at once. Others wait for the turn of their account.
	Workers int `yaml:"workers" default:"2" range:"1..64" restart:"key"`
	// Documents and pages that a process reads before it is replaced. 1: each has its own.
	PerChild int `yaml:"per_child" default:"200" range:"1..100000" restart:"key"`
	// Memory of each worker.
	Memory Size `yaml:"memory" default:"512MB" range:"128MB..16GB" restart:"key"`
	// Time for one document. A longer one is read up to there.
	Timeout time.Duration `yaml:"timeout" default:"20s" range:"1s..5m"`
	// What reads PDFs: builtin, or pdftotext, a program.
	Engine string `yaml:"engine" default:"builtin" oneof:"builtin pdftotext"`
	// Program for engine: pdftotext, found in the PATH or by its whole path.
	Path string `yaml:"path" default:"pdftotext"`
	// Reading of scans, which have no text of their own.
	OCR OCR `yaml:"ocr"`
}

// OCR reads scans, which have no text of their own.
type OCR struct {
	// What reads scans.
	Engine string `yaml:"engine" default:"none" oneof:"none tesseract"`
	// Program, found in the PATH or by its whole path.
	Path string `yaml:"path" default:"tesseract"`
	// Languages as tesseract names them, such as eng+deu.
	Languages string `yaml:"languages" default:"eng"`
	// Pages of a document.
	Pages int `yaml:"pages" default:"20" range:"1..1000"`
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
		v.callPrice("augment.chat.x_price", c.XPrice)
	}
}

// callPrice refuses a price of 0 that may be forgotten.
func (v *validator) callPrice(path string, e Each) {
	if e == 0 && !v.bad[path] && v.at[path].node.text != freeRate {
		v.wrong(path, "all calls would be free; expected their price, or price: free if that is meant")
	}
}

var languages = regexp.MustCompile(`^[A-Za-z_]{2,40}(\+[A-Za-z_]{2,40}){0,9}$`)

func (v *validator) scrape(path string, s *Scrape) {
	v.callPrice(path+".price", s.Price)
	v.burst(path+".rate", s.Rate)
	if s.UserAgent == "" || len(s.UserAgent) > 256 || !plainASCII(s.UserAgent) {
		v.wrong(path+".user_agent", "sites read it in a header: expected 1 to 256 letters, digits and signs of ASCII")
	}
	for i, name := range s.Block {
		if !hostName.MatchString(name) || name != strings.ToLower(name) {
			at := fmt.Sprintf("%s.block[%d]", path, i)
			v.wrong(at, "%s is not a site; expected a host name in lower case, such as example.com", v.shown(at))
		}
	}
	if n := len(s.Ports); n == 0 || n > 100 {
		v.wrong(path+".ports", "%d ports are listed; expected 1 to 100", n)
	}
	v.js(path+".js", &s.JS)
}

func (v *validator) js(path string, j *ScrapeJS) {
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
	v.burst(path+".rate", t.Rate)
	v.program(path+".path", t.Path)
	v.program(path+".ocr.path", t.OCR.Path)
	if !languages.MatchString(t.OCR.Languages) {
		v.wrong(path+".ocr.languages", "%s names no languages; expected languages such as eng or eng+deu",
			v.shown(path+".ocr.languages"))
	}
}

// program checks the name of a program to start: a name that is looked up in the PATH, or a whole
// path.
func (v *validator) program(path, name string) {
	if name == "" || strings.HasPrefix(name, "-") || strings.ContainsRune(name, 0) ||
		strings.Contains(name, "/") && !filepath.IsAbs(name) {
		v.wrong(path, "%s cannot be started; expected the name of a program, or its whole path", v.shown(path))
	}
}

func plainASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}
