package gemini

import (
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
)

// The vendor counts places in a text by bytes, chat completions by characters.

// sources writes where the text of a candidate comes from.
func (r *reply) sources(candidate, list int32) {
	grounding := r.raw(r.doc.Member(candidate, candidateGrounding))
	citations := r.raw(r.doc.Member(candidate, candidateCitations))
	if grounding == nil && citations == nil {
		return
	}
	var text []byte
	r.eachPart(list, func(p *part) {
		if p.text != nil && !p.thought {
			text = dialect.AppendUnescaped(text, p.text)
		}
	})
	list2 := appendSources(nil, grounding, citations, func(at int64) (int64, bool) {
		return int64(utf8.RuneCount(text[:min(at, int64(len(text)))])), true
	})
	if len(list2) > 0 {
		r.b = append(append(append(r.b, `,"annotations":[`...), list2...), ']')
	}
}

// maxSources bounds how many places one answer can name.
const maxSources = 256

// appendSources appends url_citations; chars turns a place in bytes into one in
// characters, as far as it is known.
func appendSources(dst, grounding, citations []byte, chars func(bytes int64) (int64, bool)) []byte {
	from, n := len(dst), 0
	add := func(uri, title string, start, end gjson.Result) {
		if n++; uri == "" || n > maxSources {
			return
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
		dst = dialect.AppendString(append(dst, `"title":`...), title)
		dst = dialect.AppendString(append(dst, `,"url":`...), uri)
		dst = append(dst, "}}"...)
	}
	if gjson.ValidBytes(grounding) {
		g := gjson.ParseBytes(grounding)
		chunks := g.Get("groundingChunks").Array()
		cited := make([]bool, len(chunks))
		for _, s := range g.Get("groundingSupports").Array() {
			for _, i := range s.Get("groundingChunkIndices").Array() {
				if at := i.Int(); at >= 0 && at < int64(len(chunks)) {
					web := chunks[at].Get("web")
					add(web.Get("uri").Str, web.Get("title").Str, s.Get("segment.startIndex"), s.Get("segment.endIndex"))
					cited[at] = true
				}
			}
		}
		for i, c := range chunks {
			if !cited[i] {
				add(c.Get("web.uri").Str, c.Get("web.title").Str, gjson.Result{}, gjson.Result{})
			}
		}
	}
	if gjson.ValidBytes(citations) {
		c := gjson.ParseBytes(citations)
		list := c.Get("citationSources") // of the Gemini API; elsewhere it is citations
		if !list.Exists() {
			list = c.Get("citations")
		}
		for _, s := range list.Array() {
			add(s.Get("uri").Str, s.Get("title").Str, s.Get("startIndex"), s.Get("endIndex"))
		}
	}
	return dst
}

// appendLogprobs appends a logprobs object for a logprobsResult, or null.
func appendLogprobs(dst, raw []byte) []byte {
	if raw == nil || raw[0] != '{' || !gjson.ValidBytes(raw) {
		return append(dst, "null"...)
	}
	result := gjson.ParseBytes(raw)
	top := result.Get("topCandidates").Array()
	dst = append(dst, `{"content":[`...)
	for i, chosen := range result.Get("chosenCandidates").Array() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendLogprob(append(dst, '{'), chosen)
		dst = append(dst, `,"top_logprobs":[`...)
		if i < len(top) {
			for k, t := range top[i].Get("candidates").Array() {
				if k > 0 {
					dst = append(dst, ',')
				}
				dst = append(appendLogprob(append(dst, '{'), t), '}')
			}
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, `],"refusal":null}`...)
}

func appendLogprob(dst []byte, c gjson.Result) []byte {
	token := c.Get("token").Str
	dst = dialect.AppendString(append(dst, `"token":`...), token)
	dst = append(dst, `,"logprob":`...)
	if p := c.Get("logProbability"); p.Type == gjson.Number {
		dst = append(dst, p.Raw...)
	} else {
		dst = append(dst, '0') // the vendor leaves out a 0
	}
	dst = append(dst, `,"bytes":[`...)
	for i := range len(token) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(token[i]), 10)
	}
	return append(dst, ']')
}
