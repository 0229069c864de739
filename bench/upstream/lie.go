package upstream

import (
	"cmp"
	"encoding/base64"
	"strconv"
	"time"
)

// This file hides the cost of an answer: tokens that are never
// written, text in members that a meter may not know, claims above the cap.

// think is the silence in which hidden tokens are made, and with them, where
// the answer is not a stream, all others. A peer that leaves meanwhile ends it;
// the tokens made by then count.
func (c *conn) think(x *exchange) error {
	began := time.Now()
	err := c.pause(x.sc.Think)
	if err != nil && !x.sc.RunOn {
		share := min(1, float64(time.Since(began))/float64(x.sc.Think))
		x.hidden = int64(share * float64(x.answer.hidden))
		if !x.answer.asked.Get("stream").Bool() {
			visible, _ := x.answer.completion()
			x.tally.CompletionTokens = int64(share * float64(visible))
		}
		return err
	}
	x.hidden = x.answer.hidden
	return err
}

// tellHidden adds the hidden tokens to a usage where the scenario wants them:
// inside the completion as OpenAI does, beside it as xAI does, in the total
// alone as Google's OpenAI endpoint does, or nowhere.
func (a *answer) tellHidden(completion, reasoning, total int64) (int64, int64, int64) {
	switch a.sc.HiddenIn {
	case "nowhere":
		return completion, reasoning, total
	case "total":
		return completion, reasoning, total + a.hidden
	case "beside":
		return completion, reasoning + a.hidden, total + a.hidden
	}
	return completion + a.hidden, reasoning + a.hidden, total + a.hidden
}

// overClaim is how far above the cap, or above the truth, usage=over is.
const overClaim = 10

// claimed is the completion that usage=over reports.
func (a *answer) claimed() int64 {
	visible, _ := a.completion()
	return overClaim * max(int64(a.cap()), visible+a.hidden)
}

// usage is the usage that an answer reports.
type usage struct{ prompt, cached, written, completion, reasoning, total int64 }

// usageOf is the usage for so many tokens of the completion, honest or not as the scenario says.
func (a *answer) usageOf(completion, reasoning int64) usage {
	u := usage{prompt: a.prompt, cached: a.cached(), written: a.written()}
	u.completion, u.reasoning, u.total = a.tellHidden(completion, reasoning, u.prompt+completion)
	switch a.sc.Usage {
	case "less", "early":
		u.completion, u.reasoning, u.total = min(1, u.completion), 0, u.prompt+1
	case "over":
		u.completion = a.claimed()
		u.total = u.prompt + u.completion
	case "zero":
		u = usage{}
	case "negative":
		u.prompt, u.completion, u.total = -u.prompt, -u.completion, -u.total
	case "huge":
		u.prompt, u.completion, u.total = 1<<63-1, 1<<63-1, 1<<63-1
	}
	return u
}

// member is a name with its comma and colon, and its number.
type member struct {
	name string
	n    int64
}

func appendMembers(dst []byte, list ...member) []byte {
	for _, m := range list {
		dst = strconv.AppendInt(append(dst, m.name...), m.n, 10)
	}
	return dst
}

// thoughtMember is the name of visible reasoning in OpenAI's dialect.
func (s *Scenario) thoughtMember() string {
	if s.ThoughtAs == "redacted" {
		return "reasoning_content"
	}
	return cmp.Or(s.ThoughtAs, "reasoning_content")
}

// appendSaid is text as a member of a message or delta.
func (s *Scenario) appendSaid(dst []byte, text string) []byte {
	open, end := `"content":`, ""
	switch s.SaidIn {
	case "array":
		open, end = `"content":[{"type":"text","text":`, "}]"
	case "function_call":
		open, end = `"content":null,"function_call":{"name":"say","arguments":`, "}"
	case "audio":
		open, end = `"content":null,"audio":{"id":"audio_simulated","transcript":`, "}"
	case "refusal":
		open, end = `"content":null,"refusal":`, ""
	case "unknown":
		open, end = `"content":null,"caption":{"lines":[`, "]}"
	}
	dst = append(dst, open...)
	dst = appendString(dst, text)
	return append(dst, end...)
}

// pictured is the price of a picture in tokens: vendors sell those of 1 MB as about 1,200
// tokens.
func (ch *choice) pictured() int64 { return ch.draws / 1024 }

// picture is that picture.
func (ch *choice) picture() string {
	return base64.StdEncoding.EncodeToString(padPNG(paint(64, 64, "png", 1), int(ch.draws)*3/4))
}

// openaiPicture is its member of a message or delta, as OpenRouter has it.
func (ch *choice) openaiPicture() string {
	return `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + ch.picture() + `"},"index":0}]`
}

// googlePicture is its part, as Gemini has it.
func (ch *choice) googlePicture() []byte {
	return []byte(`{"inlineData": {"mimeType": "image/png","data": "` + ch.picture() + `"}}`)
}

// redacted is the cipher text of so many tokens of thinking.
func redacted(tokens int) string {
	return base64.StdEncoding.EncodeToString(appendText(nil, words{list: plainWords, n: tokens}))
}

// sendEndlessText is a whole answer whose text never stops.
func (c *conn) sendEndlessText(x *exchange) (int, bool, error) {
	x.outcome = Broken
	a := x.answer
	b := append(a.openaiHead("chat.completion"), `{"index":0,"message":{"role":"assistant","content":"`...)
	if x.endpoint == "messages" {
		b = append(a.anthropicHead(), `{"type":"text","text":"`...)
	}
	if x.endpoint == "responses" {
		b = []byte(`{"id":"resp_` + a.id + `","object":"response","status":"completed","output":[{"type":"message",` +
			`"role":"assistant","content":[{"type":"output_text","text":"`)
	}
	if x.google {
		b = []byte(`{"candidates": [{"content": {"parts": [{"text": "`)
	}
	c.wire.begin(x.sc, 200, contentJSON, -1)
	const wordsPerWrite = 4 << 10
	block := appendText(nil, words{list: []string{" the"}, n: wordsPerWrite})
	tokens := int64(0)
	for {
		err := c.wire.event(b, tokens)
		x.tally.CompletionTokens = c.wire.produced
		if err != nil {
			return 200, false, err
		}
		b, tokens = block, wordsPerWrite
	}
}

// strayAnswer is an unrequested answer after a whole one, as a broken server or a proxy
// that lost count sends it. stray=0 is in the same write as the answer before it: it is
// there before the next request.
func strayAnswer() []byte {
	body := `{"id":"chatcmpl-stray","object":"chat.completion","created":1700000000,"model":"stray","choices":[{"index":0,"message":{"role":"assistant","content":` +
		`"` + StrayText + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) +
		"\r\n\r\n" + body)
}

// stray sends it some time later.
func (c *conn) stray(sc *Scenario) bool {
	return c.pause(time.Duration(sc.Stray.N)*time.Millisecond) == nil && c.write(strayAnswer()) == nil
}

// StrayText is the text of stray answers.
const StrayText = "an answer that belongs to somebody else"

// Made is the real cost of one request, or of all with one id, to the upstream.
type Made struct {
	ID         string `json:"id"`
	Requests   int64  `json:"requests"`          // attempts that reached the model
	Prompt     int64  `json:"prompt_tokens"`     //
	Completion int64  `json:"completion_tokens"` // with the hidden ones
	Hidden     int64  `json:"hidden_tokens"`     //
	Cap        int64  `json:"cap_tokens"`        // the caps of the requests, added up
	WithinCap  int64  `json:"within_cap_tokens"` // of the completions, each up to its own cap; all of one without a cap
	Uncapped   int64  `json:"uncapped"`          // requests without a cap
	Units      int64  `json:"units"`
	Truthful   int64  `json:"truthful"` // answers that were sent to their end with a usage that is true
	RealNano   int64  `json:"real_nano,omitempty"`
	CappedNano int64  `json:"capped_nano,omitempty"`
}

// Add adds another's counts.
func (m *Made) Add(o Made) {
	m.Requests += o.Requests
	m.Prompt += o.Prompt
	m.Completion += o.Completion
	m.Hidden += o.Hidden
	m.Cap += o.Cap
	m.WithinCap += o.WithinCap
	m.Uncapped += o.Uncapped
	m.Units += o.Units
	m.Truthful += o.Truthful
	m.RealNano += o.RealNano
	m.CappedNano += o.CappedNano
}

// Price is the operator's price, in 1e-9 of a currency.
type Price struct{ Prompt, Completion, Unit int64 }

// keptMade bounds the ids that Made remembers.
const keptMade = 1 << 18

// made books one answer under its scenario's id.
func (t *truth) made(m Made) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.byID[m.ID]
	if sum == nil {
		if len(t.byID) >= keptMade {
			return
		}
		sum = &Made{ID: m.ID}
		t.byID[m.ID] = sum
	}
	sum.Add(m)
}

// Made is the output produced under an id; zero if there was no output. A unit of a job is
// one that the upstream is paid for, whether or not its client heard that it was taken.
func (s *Server) Made(id string) Made {
	m := Made{ID: id}
	s.truth.mu.Lock()
	if kept := s.truth.byID[id]; kept != nil {
		m = *kept
	}
	s.truth.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		if o.sc.ID != id {
			continue
		}
		m.Requests++
		if o.Charged {
			m.Units++
		}
	}
	return m
}

// bookMade adds the cost of an answer with an id to the truth.
func (c *conn) bookMade(x *exchange, gone bool) {
	if x.sc.ID == "" || x.outcome == Refused || x.job {
		return
	}
	m := Made{ID: x.sc.ID, Requests: 1, Prompt: x.prompt, Completion: x.tally.CompletionTokens, Hidden: x.hidden,
		Units: x.units}
	if a := x.answer; a != nil {
		if x.sc.RunOn && gone {
			visible, _ := a.completion()
			m.Hidden, m.Completion = a.hidden, visible+a.hidden
		}
		m.Cap, m.WithinCap = int64(a.cap()), m.Completion
		if m.Cap == 0 {
			m.Uncapped = 1
		} else {
			m.WithinCap = min(m.Completion, m.Cap)
		}
	}
	if !gone && x.outcome == Complete && x.sc.truthful() {
		m.Truthful = 1
	}
	p := c.srv.options.Price
	m.RealNano = m.Prompt*p.Prompt + m.Completion*p.Completion + m.Units*p.Unit
	m.CappedNano = m.Prompt*p.Prompt + m.WithinCap*p.Completion + m.Units*p.Unit
	c.srv.truth.made(m)
}

// truthful: the usage of a complete answer is that of the output.
func (s *Scenario) truthful() bool {
	switch s.Usage {
	case "", "late", "choices0", "top", "zerofirst", "every", "twice":
		return s.Hidden == 0 || s.HiddenIn != "nowhere"
	}
	return false
}
