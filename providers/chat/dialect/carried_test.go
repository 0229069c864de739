package dialect

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"farebox/proxy/jsontext"
)

// sorted is the classification of an answer's strings.
type sorted struct {
	text, unknown string
	media, worth  int64
	sources       int64
}

func (s *sorted) Add(_ uint16, p []byte)        { s.text += string(p) }
func (s *sorted) AddUnknown(_ uint16, p []byte) { s.unknown += string(p) }
func (s *sorted) AddMedia(n, worth int64)       { s.media += n; s.worth += n * worth }
func (s *sorted) AddSource(n int64)             { s.sources += n }

// base is so many bytes of base64 that begin as a PNG does.
func base(n int) string {
	return base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\x07\xa1q", n)))[:n/4*4]
}

const words = "The small river moves past old stone houses, and nobody looks at it for long today. "

// How a string counts does not depend on where it was split.
func TestStringsCountByTheirKind(t *testing.T) {
	picture, long := base(9000), strings.Repeat(words, 40)
	url := "data:image/png;base64," + picture
	f := func(name string, way Way, text string, want sorted) {
		t.Helper()
		for _, size := range []int{len(text), 1, 7, 63, 64, 65, 1000} {
			var got sorted
			var s Sorter
			s.Begin(way)
			for at := 0; at < len(text); at += size {
				s.Take(&got, 0, []byte(text[at:min(len(text), at+size)]))
			}
			s.End(&got, 0)
			if want.worth < 0 {
				got.worth = -1
			}
			if got != want {
				t.Errorf("%s in pieces of %d: %s", name, size, fmt.Sprintf("%.300v, want %.300v", got, want))
			}
		}
	}
	n := int64(len(picture))
	whole := sorted{media: int64(len(url)), worth: int64(len(url))}
	for _, row := range Carried {
		name := row.What
		switch row.Way {
		case Written:
			f(name, row.Way, long, sorted{text: long})
			f(name+" that is base64", row.Way, picture, sorted{text: picture})
			f(name+" with a picture", row.Way, words+"![x]("+url+") "+words, sorted{
				text: words + "![x](data:image/png;base64,) " + words, media: n, worth: n * quotedWorth})
			f(name+" in the URL of a text", row.Way, "data:text/plain;base64,"+picture,
				sorted{text: "data:text/plain;base64," + picture})
		case Media, Sealed:
			f(name, row.Way, picture, sorted{media: n, worth: n})
			f(name+", URL", row.Way, url, whole)
			f(name+" that is text", row.Way, long, sorted{unknown: long})
			f(name+" that becomes text", row.Way, picture+" "+long,
				sorted{unknown: " " + long, media: n, worth: n})
			f(name+", URL of a text", row.Way, "data:text/plain;base64,"+picture,
				sorted{unknown: "data:text/plain;base64," + picture})
		case Label:
			f(name, row.Way, "message_with_a_name", sorted{media: 19})
			f(name+" that is text", row.Way, long, sorted{unknown: long})
			f(name+" that is sealed", row.Way, picture, sorted{media: n})
		case Source:
			f(name, row.Way, long, sorted{sources: int64(len(long))})
		}
	}
	f("link", Media, "https://files.example/a%20b.png?sig="+picture[:900], sorted{media: 936})
	f("unknown", Unknown, long, sorted{unknown: long})
	f("unknown URL", Unknown, url, whole)
	f("unknown file", Unknown, picture, sorted{media: n, worth: n})
	f("unknown base64", Unknown, picture[50:], sorted{unknown: picture[50:]})
	f("escaped URL", Unknown, `data:image\/png;base64,`+picture, sorted{media: int64(len(url)) + 1, worth: int64(len(url)) + 1})
}

// A name of the table is in one row only.
func TestCarriedNamesEachMemberOnce(t *testing.T) {
	n := 0
	for _, row := range Carried {
		n += len(row.Members)
	}
	if n != len(ways) {
		t.Errorf("%d names in the rows, %d ways", n, len(ways))
	}
}

// Media contradict no usage, and are priced by their size without a report.
func TestMediaArePricedByTheReportOrTheirSize(t *testing.T) {
	c := &Chat{Cap: 16384, MostPrompt: 100, Model: &Model{Tokenizer: "o200k_base"}}
	reported := Usage{Prompt: 5, Completion: 8, Seen: true}
	f := func(name string, p *Produced, u Usage, final bool, want int64) {
		t.Helper()
		if u.Prompt = 5; Settle(u, final, p, c).Completion != want {
			t.Errorf("%s: %d tokens, want %d", name, Settle(u, final, p, c).Completion, want)
		}
	}
	picture := func() *Produced {
		p := &Produced{}
		AddString(p, Media, 0, []byte("data:image/png;base64,"+base(1<<20)))
		p.Add(0, []byte("Here it is."))
		return p
	}
	f("reported", picture(), reported, true, 8)
	f("not to its end", picture(), reported, false, 1024+4)
	f("not reported", picture(), Usage{}, false, 1024+4)
	f("reported as nothing", picture(), Usage{Seen: true}, true, 1024+4)
	if p := picture(); p.Exceeds(10, "o200k_base") || p.Estimate() < 1024 {
		t.Errorf("a picture is beyond a cap, or makes no hold larger: %d", p.Estimate())
	}
	hidden := &Produced{}
	AddString(hidden, Media, 0, []byte(strings.Repeat(words, 100)))
	f("text as a picture", hidden, reported, true, 1800) // about as many as it has
	inText := &Produced{}
	AddString(inText, Written, 0, []byte("![a](data:image/png;base64,"+base(40_000)+")"))
	f("drawn into the text", inText, reported, true, 8)
	if n := Settle(Usage{Prompt: 5}, false, inText, c).Completion; n < 10_000 {
		t.Errorf("drawn into a text without a usage: %d tokens", n)
	}
	c.BrokenOff = true
	f("broken off", picture(), Usage{}, false, 4)
	f("text in an unknown member, broken off", hidden, Usage{}, false, 0)
	c.BrokenOff = false
	sources := &Produced{}
	AddString(sources, Source, 0, []byte(strings.Repeat("x", sourceBytes)))
	f("sources", sources, reported, true, 8)
	AddString(sources, Source, 0, []byte(strings.Repeat("x", sourceBytes)))
	f("endless sources", sources, reported, true, 16384)
}

// A usage that is true of the text is believed, however the text is escaped.
func TestEscapedTextContradictsNoUsage(t *testing.T) {
	c := &Chat{Cap: 16384, Model: &Model{Tokenizer: "o200k_base"}}
	text := strings.Repeat(`\u0442\u0438\u0445\u0430\u044f \u0440\u0435\u043a\u0430\n`, 100)
	n := CountTokens("o200k_base", jsontext.AppendUnescaped(nil, []byte(text)))
	p := &Produced{}
	p.Add(0, []byte(text))
	if u := Settle(Usage{Prompt: 5, Completion: n * 3 / 4, Seen: true}, true, p, c); u.Estimated {
		t.Errorf("%d tokens of %d were not believed", n*3/4, n)
	}
	if most := p.plain(); most > int64(len(text))*6/10 {
		t.Errorf("%d bytes are %d unescaped", len(text), most)
	}
}
