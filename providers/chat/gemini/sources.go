package gemini

import (
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/proxy/jsontext"
)

// The vendor counts places in a text by bytes, chat completions by characters.

const (
	// maxSources bounds how many places one answer or event can name, and how many
	// sources it can name them of.
	maxSources = 256
	// maxAddress and maxTitle bound one source's; many places may name it.
	maxAddress = 8 << 10
	maxTitle   = 1 << 10
	// maxSourced bounds the length of all places together.
	maxSourced = 256 << 10
)

// places turns places in a text from bytes into characters.
type places struct {
	b     []byte
	every []int64 // characters before each stride of bytes
}

const stride = 4 << 10

// places has the whole text of a candidate.
func (r *read) places(candidate int32) (text places) {
	list := r.parts(candidate)
	for i := list + 1; list >= 0 && i < r.doc.Fields[list].Next; i = r.doc.Fields[i].Next {
		if p := r.part(i); p.text != nil && !p.thought {
			text.b = jsontext.AppendUnescaped(text.b, p.text)
		}
	}
	return text
}

func (p *places) char(at int64) int64 {
	at = min(at, int64(len(p.b)))
	if p.every == nil {
		n := int64(0)
		for from := 0; from <= len(p.b); from += stride {
			p.every = append(p.every, n)
			n += characters(p.b[from:min(from+stride, len(p.b))])
		}
	}
	return p.every[at/stride] + characters(p.b[at/stride*stride:at])
}

// characters is how many begin in b; it may begin or end in the middle of one.
func characters(b []byte) (n int64) {
	for _, c := range b {
		if c&0xc0 != 0x80 {
			n++
		}
	}
	return n
}

// source is the source of a place in a text.
type source struct{ uri, title string }

func sourceOf(v gjson.Result) source {
	s := source{v.Get("uri").Str, v.Get("title").Str}
	if len(s.uri) > maxAddress {
		s.uri = ""
	}
	if len(s.title) > maxTitle {
		s.title = ""
	}
	return s
}

// appendSources appends url_citations; chars turns a place in bytes into one in
// characters, as far as it is known.
func appendSources(dst, grounding, citations []byte, chars func(bytes int64) (int64, bool)) []byte {
	from, n := len(dst), 0
	add := func(src source, start, end gjson.Result) bool {
		if n++; n > maxSources || len(dst)-from > maxSourced {
			return false
		}
		if src.uri == "" {
			return true
		}
		if len(dst) > from {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"url_citation","url_citation":{`...)
		s, known := chars(max(0, start.Int()))
		e, too := chars(max(0, end.Int()))
		if end.Exists() && known && too {
			dst = strconv.AppendInt(append(dst, `"start_index":`...), s, 10)
			dst = append(strconv.AppendInt(append(dst, `,"end_index":`...), e, 10), ',')
		}
		dst = jsontext.AppendString(append(dst, `"title":`...), src.title)
		dst = jsontext.Object(dst).Text("url", src.uri)
		dst = append(dst, "}}"...)
		return true
	}
	if gjson.ValidBytes(grounding) {
		eachGrounding(gjson.ParseBytes(grounding), add)
	}
	if gjson.ValidBytes(citations) {
		c := gjson.ParseBytes(citations)
		list := c.Get("citationSources") // of the Gemini API; elsewhere it is citations
		if !list.Exists() {
			list = c.Get("citations")
		}
		eachOf(list, func(s gjson.Result) bool { return add(sourceOf(s), s.Get("startIndex"), s.Get("endIndex")) })
	}
	return dst
}

// eachGrounding gives the places of a groundingMetadata, and the sources of which
// none is sent.
func eachGrounding(g gjson.Result, add func(src source, start, end gjson.Result) bool) {
	var chunks [maxSources]source
	var cited [maxSources]bool
	known := int64(0)
	eachOf(g.Get("groundingChunks"), func(c gjson.Result) bool {
		chunks[known] = sourceOf(c.Get("web"))
		known++
		return known < maxSources
	})
	eachOf(g.Get("groundingSupports"), func(s gjson.Result) (more bool) {
		start, end := s.Get("segment.startIndex"), s.Get("segment.endIndex")
		more = true
		eachOf(s.Get("groundingChunkIndices"), func(i gjson.Result) bool {
			if at := i.Int(); at >= 0 && at < known {
				cited[at] = true
				more = add(chunks[at], start, end)
			}
			return more
		})
		return more
	})
	for i := range known {
		if !cited[i] && !add(chunks[i], gjson.Result{}, gjson.Result{}) {
			return
		}
	}
}

// eachOf calls f for the elements of a list until it says no.
func eachOf(list gjson.Result, f func(v gjson.Result) bool) {
	if list.IsArray() {
		list.ForEach(func(_, v gjson.Result) bool { return f(v) })
	}
}

// appendLogprobs appends a logprobs object for a logprobsResult, or null.
func appendLogprobs(dst, raw []byte) []byte {
	if raw == nil || raw[0] != '{' || !gjson.ValidBytes(raw) {
		return append(dst, "null"...)
	}
	var chosen, top []byte
	for m := range jsontext.Members(raw, 1) {
		switch list := raw[m.From:m.To]; {
		case list[0] != '[':
		case string(m.Key) == "chosenCandidates":
			chosen = list
		case string(m.Key) == "topCandidates":
			top = list
		}
	}
	dst = append(dst, `{"content":[`...)
	// Both lists have an element for each token.
	also := 1
	for one := range jsontext.Elements(chosen) {
		dst = appendLogprob(append(jsontext.Comma(dst), '{'), one)
		dst = append(dst, `,"top_logprobs":[`...)
		if top != nil {
			if from, to, ok := jsontext.NextElement(top, also); ok {
				also = to
				dst = appendTop(dst, top[from:to])
			} else {
				top = nil
			}
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}

// appendTop appends the candidates for one token.
func appendTop(dst, raw []byte) []byte {
	if raw[0] != '{' {
		return dst
	}
	for m := range jsontext.Members(raw, 1) {
		list := raw[m.From:m.To]
		if string(m.Key) != "candidates" || list[0] != '[' {
			continue
		}
		n := 0
		for one := range jsontext.Elements(list) {
			if n++; n > maxLogprobs {
				break
			}
			dst = append(appendLogprob(append(jsontext.Comma(dst), '{'), one), '}')
		}
		break // a second list of that name would follow without a comma
	}
	return dst
}

// appendLogprob appends one token's members; c is JSON of any kind.
func appendLogprob(dst, c []byte) []byte {
	token, p := []byte(`""`), []byte("0") // the vendor leaves out a 0
	if c[0] == '{' {
		for m := range jsontext.Members(c, 1) {
			switch value := c[m.From:m.To]; {
			case string(m.Key) == "token" && value[0] == '"':
				token = value
			case string(m.Key) == "logProbability" && (value[0] == '-' || value[0] >= '0' && value[0] <= '9'):
				p = value
			}
		}
	}
	dst = append(append(dst, `"token":`...), token...)
	dst = append(append(dst, `,"logprob":`...), p...)
	dst = append(dst, `,"bytes":[`...)
	var room [64]byte
	for i, b := range jsontext.AppendUnescaped(room[:0], token[1:len(token)-1]) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b), 10)
	}
	return append(dst, ']')
}
