package parse

import (
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"

	"farebox/providers/jail"
)

// fontCiphers are the ciphers that books use to keep fonts from being copied out of them;
// anything else hides the text.
var fontCiphers = map[string]bool{
	"http://www.idpf.org/2008/embedding": true, "http://ns.adobe.com/pdf/enc#RC": true,
}

// readEPUB follows the spine, which is the order of reading.
func readEPUB(s *sink, a *archive) error {
	if locked, err := a.epubLocked(); err != nil {
		return err
	} else if locked {
		return refuse(Encrypted)
	}
	order, err := a.spine()
	if err != nil {
		return err
	}
	for _, name := range order {
		if err := a.chapter(s, name); err != nil {
			return err
		}
		s.pause()
		if s.full {
			break
		}
	}
	return nil
}

func (a *archive) epubLocked() (locked bool, err error) {
	r, err := a.open("META-INF/encryption.xml")
	if err != nil {
		return false, err
	}
	defer r.Close()
	err = walkXML(r, true, func(e *xml.StartElement) {
		if e.Name.Local == "EncryptionMethod" && !fontCiphers[attr(e, "Algorithm")] {
			locked = true
		}
	}, nil, nil)
	return locked, err
}

// spine lists the chapters' parts, each once.
func (a *archive) spine() (order []string, err error) {
	var root string
	r, err := a.open("META-INF/container.xml")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := walkXML(r, true, func(e *xml.StartElement) {
		if e.Name.Local == "rootfile" && root == "" {
			root = attr(e, "full-path")
		}
	}, nil, nil); err != nil {
		return nil, err
	}
	opf, err := a.open(root)
	if err != nil {
		return nil, err
	}
	defer opf.Close()
	dir := path.Dir(clean(root))
	items := map[string]string{}
	err = walkXML(opf, true, func(e *xml.StartElement) {
		switch e.Name.Local {
		case "item":
			href, _, _ := strings.Cut(attr(e, "href"), "#")
			if plain, err := url.PathUnescape(href); err == nil {
				items[attr(e, "id")] = clean(dir + "/" + plain)
			}
		case "itemref":
			id := attr(e, "idref")
			if name := items[id]; name != "" {
				order = append(order, name)
				delete(items, id)
			}
		}
	}, nil, nil)
	return order, err
}

// chapter makes text of XHTML as a browser's tokenizer sees it: books are not
// always well-formed.
func (a *archive) chapter(s *sink, name string) error {
	r, err := a.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	decoded, err := charset.NewReader(r, "application/xhtml+xml")
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	z := html.NewTokenizer(decoded)
	z.SetMaxBuf(maxToken)
	hidden := 0
	for !s.full {
		switch z.Next() {
		case html.ErrorToken:
			var said *jail.Refusal
			if err := z.Err(); errors.As(err, &said) {
				return err
			} else if !errors.Is(err, io.EOF) {
				return refuse(Broken)
			}
			s.paragraph()
			return nil
		case html.TextToken:
			if hidden == 0 {
				htmlText(s, z.Text())
			}
		case html.StartTagToken:
			tag, _ := z.TagName()
			what := atom.Lookup(tag)
			if hides(what) {
				hidden++
			}
			breaks(s, what)
		case html.SelfClosingTagToken:
			z.NextIsNotRawText() // <script/> is whole in XHTML
			tag, _ := z.TagName()
			breaks(s, atom.Lookup(tag))
		case html.EndTagToken:
			tag, _ := z.TagName()
			what := atom.Lookup(tag)
			if hides(what) && hidden > 0 {
				hidden--
			}
			breaks(s, what)
		}
	}
	return nil
}

// maxToken bounds one tag or text between two of them.
const maxToken = 8 << 20

func hides(tag atom.Atom) bool {
	return tag == atom.Script || tag == atom.Style || tag == atom.Head || tag == atom.Template
}

// breaks ends the line where a browser would.
func breaks(s *sink, tag atom.Atom) {
	switch tag {
	case atom.P, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Blockquote, atom.Pre, atom.Table,
		atom.Section, atom.Article, atom.Ul, atom.Ol, atom.Dl, atom.Figure, atom.Hr:
		s.paragraph()
	case atom.Div, atom.Li, atom.Tr, atom.Dt, atom.Dd, atom.Br, atom.Figcaption, atom.Header, atom.Footer, atom.Body:
		s.line()
	case atom.Td, atom.Th:
		s.space()
	}
}

// htmlText adds text with its white space as one space each.
func htmlText(s *sink, b []byte) {
	for _, c := range b {
		switch c {
		case ' ', '\t', '\n', '\r', '\f':
			s.space()
		default:
			s.char(c)
		}
	}
}
