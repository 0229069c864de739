package chat

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"farebox/billing"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/providers/chat/dialect"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// lookup is the web lookup of a chat before its model is asked (addendum 5.3): a search, or the
// pages that its last user message links to.
type lookup struct {
	offer  routes.WebOffer
	query  string   // to search for; empty: nothing is searched
	forced bool     // the chat is refused where the search fails
	links  []string // of pages to read instead
	user   int32    // the last user message, -1 if absent
	room   int64    // tokens that are held for additions to the prompt
	x      bool     // the upstream searches X for itself
	xPrice money.Pico
	xMost  int64 // results that are paid for
	xRoom  int64 // tokens that are held for the upstream's additions to the prompt

	answer routes.WebAnswer
	sold   money.Lines
	took   time.Duration
}

// maxQuery is how many characters are searched for (addendum 12.2).
const maxQuery = 400

// maxLookupAnswer is the largest whole answer that gets its citations.
const maxLookupAnswer = 4 << 20

// plan decides the lookup, before anything is held for it.
func (c *inference) plan(f *brandFlags) *routes.Error {
	search := f.webSearch == "on" || f.webSearch == "auto"
	if !search && !f.scraping && !f.tool && !f.xSearch {
		return nil
	}
	l, bounds := &lookup{user: c.lastUser(), x: f.xSearch}, c.call.Config().Augment.InChat()
	if c.lookup = l; l.x {
		l.xPrice, l.xMost, l.xRoom = money.Pico(bounds.XPrice), int64(bounds.XResults), bounds.Tokens
	}
	if c.chat.Form != nil && f.tool && !f.citationsAsked {
		f.citations = true // answers of these forms tell the sources of their texts
	}
	if search || f.scraping {
		l.offer = c.owner.web.Offer(c.call)
	}
	if f.documents && c.chat.Stream && c.chat.Form == nil && (search || f.scraping) && c.callsBack() {
		// The model's own calls are counted from 0, as that of the results is, and how
		// many there will be nobody knows before the end.
		return routes.Unsupported(cmp.Or(f.word, c.brandWord(0))+"_parameters.return_search_results_as_documents",
			"Search results cannot be a tool call in a stream with tools of the request's own; ask for "+
				"include_search_results_in_stream, or leave out stream or tools.")
	}
	words := c.words(l.user)
	if f.scraping {
		l.links = linksIn(words)
	}
	query := queryOf(words)
	switch {
	case len(l.links) > 0:
	case f.webSearch == "on":
		if l.query, l.forced = query, true; query == "" {
			return routes.Invalid(routes.Issue{Code: "custom", Path: "messages",
				Message: "messages: a web search needs a user message with text to search for."})
		}
	case f.webSearch == "auto" && worthSearching(query):
		l.query = query
	}
	if l.asks() {
		l.room = bounds.Tokens
	}
	return nil
}

// callsBack says that the request has tools that its client carries out.
func (c *inference) callsBack() bool {
	doc := c.chat.Doc
	tools := doc.TopIndex(dialect.ChatTools)
	for t := tools + 1; tools >= 0 && t < doc.Fields[tools].Next; t = doc.Fields[t].Next {
		if kind := string(c.chat.Text(doc.Member(t, dialect.ToolType))); kind != "web_search" && kind != "x_search" {
			return true
		}
	}
	return false
}

// asks says that something is looked up.
func (l *lookup) asks() bool { return l != nil && (l.query != "" || len(l.links) > 0) }

// reads says that pages are read, which children do.
func (l *lookup) reads() bool { return l != nil && len(l.links) > 0 }

// tells says that the answer reports the lookup.
func (l *lookup) tells() bool { return l.asks() }

// outcome is the value of the answer's header.
func (l *lookup) outcome() string {
	switch {
	case !l.asks() && l.x:
		return "x"
	case !l.asks():
		return "none"
	case l.answer.Failed:
		return "failed"
	case len(l.links) > 0:
		return "pages"
	}
	return "search"
}

// needs is how many tokens are held for additions to the prompt.
func (l *lookup) needs() int64 {
	if l == nil {
		return 0
	}
	return l.room + l.xRoom
}

// bought says that it costs something.
func (l *lookup) bought() bool { return l != nil && len(l.sold.All()) > 0 }

// lasted is how long it took.
func (l *lookup) lasted() time.Duration {
	if l == nil {
		return 0
	}
	return l.took
}

// documents says that the answer has the found texts as a tool call, too.
func (l *lookup) documents(f *brandFlags) bool {
	return f.documents && l.asks() && !l.answer.Failed
}

// worst is the most that is paid for it, tokens apart.
func (l *lookup) worst() billing.Nano {
	var lines money.Lines
	if l.asks() {
		lines = l.lines(max(1, int64(len(l.links))))
	}
	if l != nil && l.x {
		lines.Add(money.XResults, l.xMost, l.xPrice)
	}
	return lines.Cost()
}

// lines are the charge of so many searches or pages.
func (l *lookup) lines(units int64) (lines money.Lines) {
	if len(l.links) > 0 {
		lines.Add(money.Scrapes, units, l.offer.Page)
	} else {
		lines.Add(money.Searches, units, l.offer.Search)
	}
	return lines
}

// bill adds the lookup's lines after the tokens, and the results that the upstream reports from
// X.
func (l *lookup) bill(sold *money.Lines, sources int64) {
	if l == nil {
		return
	}
	if n := min(sources, l.xMost); l.x && n > 0 {
		sold.Add(money.XResults, n, l.xPrice)
	}
	for _, line := range l.sold.All() {
		sold.Add(line.Kind, line.Units, line.Price)
	}
}

// lastUser is the last message of role user; -1 if absent.
func (c *inference) lastUser() int32 {
	last, fields := int32(-1), c.chat.Doc.Fields
	messages := c.chat.Doc.TopIndex(dialect.ChatMessages)
	for m := messages + 1; messages >= 0 && m < fields[messages].Next; m = fields[m].Next {
		if string(c.chat.Text(c.chat.Doc.Member(m, dialect.MessageRole))) == "user" {
			last = m
		}
	}
	return last
}

// words is the text of a message.
func (c *inference) words(message int32) string {
	if message < 0 {
		return ""
	}
	fields := c.chat.Doc.Fields
	content := c.chat.Doc.Member(message, dialect.MessageContent)
	if content < 0 || fields[content].Kind != scan.Array {
		return string(jsontext.AppendUnescaped(nil, c.chat.Text(content)))
	}
	var b []byte
	for p := content + 1; p < fields[content].Next; p = fields[p].Next {
		if text := c.chat.Text(c.chat.Doc.Member(p, dialect.PartText)); text != nil {
			b = append(jsontext.AppendUnescaped(b, text), '\n')
		}
	}
	return string(b)
}

// queryOf is the search query: the beginning of a text, in one line.
func queryOf(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), 16*maxQuery)], "")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	runes := []rune(strings.Join(strings.Fields(text), " "))
	return strings.TrimSpace(string(runes[:min(len(runes), maxQuery)]))
}

// timely are words of questions whose answers change.
var timely = func() map[string]bool {
	words := map[string]bool{}
	for _, word := range strings.Fields(`latest newest current currently recent recently today tonight tomorrow yesterday
		now nowadays news headlines weather forecast price prices stock stocks score scores standings schedule election
		elections released release update updates version breaking live online website internet google search browse
		aktuell aktuelle aktuellen heute gestern morgen neueste neuesten nachrichten wetter preis suche
		actuel actuelle aujourd'hui hier demain dernier dernière actualités météo prix recherche
		actual hoy ayer mañana último última noticias tiempo precio busca`) {
		words[word] = true
	}
	return words
}()

// worthSearching decides for enable_web_search auto, in a microsecond and without a
// model: a question is searched for when it has a word of what changes (latest,
// today, weather, price and the like), a year from 2000 to 2099, or an address.
// Clients search for the questions that it misses with on.
func worthSearching(query string) bool {
	for _, word := range strings.FieldsFunc(strings.ToLower(query), unicode.IsSpace) {
		if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") || strings.HasPrefix(word, "www.") {
			return true
		}
		word = strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		word = strings.TrimSuffix(word, "'s")
		if timely[word] || len(word) == 4 && word[:2] == "20" && strings.Trim(word, "0123456789") == "" {
			return true
		}
	}
	return false
}

// maxLinks is how many pages a chat has read (addendum 5.3).
const maxLinks = 5

// linksIn are the first http and https links of a text, each once.
func linksIn(text string) (links []string) {
	for len(links) < maxLinks {
		at := -1
		for _, scheme := range [...]string{"http://", "https://"} {
			if i := strings.Index(text, scheme); i >= 0 && (at < 0 || i < at) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		text = text[at:]
		end := strings.IndexFunc(text, func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("<>\"'`|\\^{}[]", r)
		})
		if end < 0 {
			end = len(text)
		}
		link := strings.TrimRight(text[:end], ".,;:!?*_")
		if !strings.Contains(link, "(") {
			link = strings.TrimRight(strings.TrimRight(link, ")"), ".,;:!?")
		}
		text = text[end:]
		if _, host, _ := strings.Cut(link, "://"); host != "" && !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	return links
}

// lookUp carries out the plan, and puts the found texts into the body.
func (c *inference) lookUp() *routes.Error {
	l, began := c.lookup, time.Now()
	var message []byte
	if l.asks() {
		if len(l.links) > 0 {
			l.answer = c.owner.web.Pages(c.call, l.links)
		} else {
			l.answer = c.owner.web.Search(c.call, l.query, c.call.Config().Augment.InChat().Results)
		}
		c.chat.Searched = l.query
		if e := c.judgeLookup(); e != nil {
			return e
		}
		c.room = maxLookupAnswer
		l.took = time.Since(began)
		if len(l.answer.Found) > 0 || !l.answer.Failed {
			message = c.foundMessage()
		}
	}
	return c.putIn(message)
}

// judgeLookup turns the answer of services and sites into an error or a message.
func (c *inference) judgeLookup() *routes.Error {
	l := c.lookup
	a := &l.answer
	if a.Units > 0 {
		l.sold = l.lines(a.Units)
	}
	switch {
	case a.Cause != proxy.None:
		c.call.Cause = a.Cause.String()
		if c.call.Left() && a.Units > 0 {
			c.call.Status = 499
			c.call.Attempts++
			c.call.CutKept()
			c.bill(dialect.Usage{}, journal.FlagAborted)
			c.call.Settle()
		}
		return c.call.Unreachable(&proxy.Result{Cause: a.Cause})
	case a.Overrun != nil && (l.forced || len(l.links) > 0):
		return a.Overrun()
	case a.Failed && l.forced:
		return &routes.Error{Status: http.StatusServiceUnavailable, RetryAfter: max(a.RetryAfter, routes.RetrySoon),
			Message: "The web search that this request asks for has failed; nothing was charged. Please retry, " +
				"or use enable_web_search auto, which answers without it."}
	}
	if a.Units > 0 {
		c.owner.lookups.AddInt64(a.Units)
	}
	return nil
}

// putIn puts the found texts into the body before the last user message, and keeps of the
// built-in tools only the one for searching X, which is the upstream's.
func (c *inference) putIn(message []byte) *routes.Error {
	patches := c.builtIns()
	if len(message) > 0 {
		at := int(c.chat.Doc.Fields[c.lookup.user].From)
		patches = append(patches, proxy.Patch{From: at, To: at, With: message})
	}
	if e := c.rewrite(patches); e != nil {
		return e
	}
	c.lookup.room = 0 // it is in the body now
	return nil
}

// builtIns are the patches that take the tool web_search out of the body, since it is
// ours, and put in the tool x_search where a parameter asks for it.
func (c *inference) builtIns() (patches []proxy.Patch) {
	const tool = `{"type":"x_search"}`
	doc, tools := c.chat.Doc, c.chat.Doc.TopIndex(dialect.ChatTools)
	if tools < 0 || doc.Fields[tools].Kind != scan.Array {
		switch {
		case !c.lookup.x:
		case tools >= 0: // null
			patches = c.put(patches, tools, "["+tool+"]")
		default:
			patches = append(patches, proxy.Patch{From: doc.Open, To: doc.Open, With: []byte(`"tools":[` + tool + `],`)})
		}
		return patches
	}
	list := &doc.Fields[tools]
	var ours []int32
	lacks := c.lookup.x
	for t := tools + 1; t < list.Next; t = doc.Fields[t].Next {
		switch string(c.chat.Text(doc.Member(t, dialect.ToolType))) {
		case "web_search":
			ours = append(ours, t)
		case "x_search":
			lacks = false
			if doc.Named(t) != doc.Fields[t].Len {
				patches = c.put(patches, t, c.xSearch(t))
			}
		}
	}
	switch left := int(list.Len) - len(ours); {
	case left == 0 && lacks:
		return c.put(patches, tools, "["+tool+"]")
	case left == 0:
		// Without tools nothing may be said of how they are used.
		ours = ours[:0]
		for _, id := range [...]int{dialect.ChatTools, dialect.ChatToolChoice, dialect.ChatParallelToolCalls} {
			if i := doc.TopIndex(id); i >= 0 {
				ours = append(ours, i)
			}
		}
		slices.Sort(ours)
	case lacks:
		at := int(list.From) + 1
		patches = append(patches, proxy.Patch{From: at, To: at, With: []byte(tool + ",")})
	}
	for _, cut := range doc.AppendCuts(nil, c.chat.Body, ours...) {
		patches = append(patches, proxy.Patch{From: cut.From, To: cut.To})
	}
	return patches
}

// xSearch is a tool x_search with the members that are known: other members could cause searches
// that are not paid for.
func (c *inference) xSearch(t int32) string {
	tool := `{"type":"x_search"`
	for n, name := range dialect.SearchMembers {
		if i := c.chat.Doc.Member(t, dialect.ToolSearch+n); i >= 0 {
			tool += `,"` + name + `":` + string(c.chat.Doc.Fields[i].Raw(c.chat.Body))
		}
	}
	return tool + "}"
}

// put replaces the value of a field.
func (c *inference) put(patches []proxy.Patch, field int32, value string) []proxy.Patch {
	f := &c.chat.Doc.Fields[field]
	return append(patches, proxy.Patch{From: int(f.From), To: int(f.To), With: []byte(value)})
}
