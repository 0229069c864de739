package scrape

import (
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// shellText bounds the text of a shell: a page with more is taken as it is.
	shellText = 2 << 10
	// fewLetters are those of an application's name or menu, beside texts that wait for its
	// scripts.
	fewLetters = 40
)

// shell counts the parts of a page that may have no text before its scripts have run.
type shell struct {
	words
	script bool
	root   bool // an element that a script fills is empty
}

// words counts the sentences of a text by kind.
type words struct {
	any     bool
	own     int  // letters of sentences of no other kind
	loads   bool // "Loading…"
	asks    bool // "You need to enable JavaScript to run this app."
	cookies bool // "We use cookies."
	accepts bool // "Accept all"
}

// empty says that there is no text to read yet. A short text alone does not make a page
// empty. A placeholder does, or little text beside an element that waits for its script.
func (s *shell) empty(visible int) bool {
	waits := s.loads || s.asks || s.root
	switch {
	case s.own > 0:
		return s.own < fewLetters && waits && (s.script || s.asks)
	case s.any:
		return waits || s.cookies && s.accepts
	}
	return waits || s.script && visible == 0
}

// shellOf examines a page before parts of it are removed.
func shellOf(doc *html.Node) (s shell) {
	text, whole := seen(doc)
	if !whole {
		s.own = shellText
		return s
	}
	s.words = wordsOf(text)
	filled, noscript := false, false
	each(doc, func(n *html.Node) {
		switch {
		case n.DataAtom == atom.Script:
			kind := strings.ToLower(attr(n, "type"))
			s.script = s.script || kind == "" || kind == "module" || strings.Contains(kind, "javascript")
		case n.DataAtom == atom.Noscript && n.FirstChild != nil:
			low := strings.ToLower(n.FirstChild.Data[:min(len(n.FirstChild.Data), shellText)])
			noscript = noscript || wantsScript(low)
		case !filled && (rootNames[n.Data] || rootNames[strings.ToLower(attr(n, "id"))]):
			inside, _ := seen(n)
			filled = wordsOf(inside).own > 0
			s.root = !filled
		}
	})
	s.asks = s.asks || noscript && !filled
	return s
}

// rootNames are ids, and names of elements, that applications render into.
var rootNames = map[string]bool{"root": true, "app": true, "__next": true, "__nuxt": true, "___gatsby": true,
	"app-root": true, "react-root": true, "main-app": true, "svelte": true, "q-app": true, "ember-app": true, "mount": true}

// seen is the text below an element in small letters, a line for each block, without menus
// and hidden elements. whole: it is no longer than a shell's.
func seen(top *html.Node) (text string, whole bool) {
	var b strings.Builder
	line := func(n *html.Node) {
		if blocks[n.DataAtom] || n.DataAtom == atom.Button || n.DataAtom == atom.A {
			b.WriteByte('\n')
		}
	}
	for n := top.FirstChild; n != nil && b.Len() <= shellText; {
		if n.Type == html.TextNode {
			b.WriteString(strings.Join(strings.Fields(n.Data[:min(len(n.Data), 2*shellText)]), " ") + " ")
		}
		line(n)
		if n.FirstChild != nil && !leftOut[n.DataAtom] && n.DataAtom != atom.Nav && n.DataAtom != atom.Footer {
			n = n.FirstChild
			continue
		}
		for n != top && n.NextSibling == nil {
			n = n.Parent
			line(n)
		}
		if n == top {
			break
		}
		n = n.NextSibling
	}
	return strings.ToLower(b.String()), b.Len() <= shellText
}

// wordsOf reads a text sentence by sentence.
func wordsOf(text string) (w words) {
	for sentence := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\n.!?…。！？", r) }) {
		sentence = strings.TrimFunc(sentence, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		switch {
		case sentence == "":
			continue
		case wantsScript(sentence):
			w.asks = true
		case loading.MatchString(sentence):
			w.loads = true
		case consent.MatchString(sentence):
			w.cookies = true
		case accepting.MatchString(sentence):
			w.accepts = true
		default:
			for _, r := range sentence {
				if unicode.IsLetter(r) || unicode.IsDigit(r) {
					w.own++
				}
			}
		}
		w.any = true
	}
	if w.accepts && !w.cookies { // "OK" may be the whole text of a page
		w.own++
	}
	return w
}

// wantsScript says that a sentence asks for JavaScript or another browser.
func wantsScript(s string) bool {
	return len(s) < 400 && strings.Contains(s, "javascript") && enabling.MatchString(s) || oldBrowser.MatchString(s)
}

var (
	enabling = regexp.MustCompile(`enabl|activat|turn(ed)? on|switch(ed)? on|disabled|requir|need|must|without|support|allow|` +
		`aktivier|benötigt|erforder|ohne|activ|activé|désactiv|nécessi|habilit|attiva|włącz|включ|отключ|` +
		`有効|無効|启用|开启|啟用|開啟|禁用|사용|활성`)
	oldBrowser = regexp.MustCompile(`^(sorry )?(please )?((update|upgrade) your browser|(your|this) browser (is|does)( not|n't) ` +
		`support(ed)?|unsupported browser|(reload|refresh) (the|this) page)[^a-z]*([ a-z,]{0,40})$`)
	loading = regexp.MustCompile(`^(still |now )?(loading|please wait|just a (moment|second)|one moment|hang on|redirecting|initiali[sz]ing|` +
		`connecting|starting|` +
		`(wird |seite wird |inhalt wird )?geladen|lädt|bitte warten|chargement( en cours)?|veuillez patienter|cargando|espere( por favor)?|` +
		`caricamento( in corso)?|attendere( prego)?|carregando|aguarde|laden|загрузка|идёт загрузка|подождите|wczytywanie|ładowanie|yükleniyor|` +
		`加载中|正在加载|载入中|載入中|正在載入|读取中|読み込み中(です)?|ロード中|로딩 ?중|불러오는 중)` +
		`((,|，| -)? ?(the |your |this |our )?(page|app|application|content|contents|data|site|website|dashboard|map|results?|more|please( wait)?|seite|` +
		`app wird|请稍候|请稍等|請稍候))*[ ,0-9%]*$`)
	consent = regexp.MustCompile(`cookie|consent|gdpr|dsgvo|your privacy|personal data|privacy (policy|notice|settings|preferences)|` +
		`our( [0-9]+)? partners|legitimate interest|datenschutz|einwilligung|confidentialité|données personnelles|privacidad|куки`)
	accepting = regexp.MustCompile(`^(ok|okay|yes|no|close|got it|i (agree|accept|understand)|(accept|agree|allow|reject|decline|deny|manage|` +
		`customi[sz]e|save|confirm|continue|settings|preferences|options|necessary|required|functional|analytics|marketing|` +
		`statistics|learn more|more (information|info|options)|read more|imprint|impressum|terms( of (use|service))?|` +
		`alle akzeptieren|akzeptieren|ablehnen|zustimmen|einstellungen|tout accepter|accepter|refuser|aceptar|rechazar|accetta|rifiuta)` +
		`( (all|and (close|continue|proceed)|selected|selection|only|my|necessary|choices|preferences|settings|options|todo|tutti|alles|alle))*)$`)
)
