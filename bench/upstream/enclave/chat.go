package enclave

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// asked is a chat request as an enclave reads it.
type asked struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	MaxTokens int `json:"max_completion_tokens"`
	Options   struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// turns are the contents, opened where they are sealed.
func (e *Enclave) turns(a *asked, sealed bool) (list []string, err error) {
	for _, m := range a.Messages {
		var text string
		if err := json.Unmarshal(m.Content, &text); err != nil {
			if sealed {
				return nil, errSealed
			}
			text = string(m.Content)
		}
		if sealed {
			if text, err = e.identity.open(text); err != nil {
				return nil, err
			}
		}
		list = append(list, text)
	}
	return list, nil
}

// chat answers with words about the request, sealed if the headers say so, and
// signs for every byte.
func (e *Enclave) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	var a asked
	if err != nil || json.Unmarshal(body, &a) != nil || len(a.Messages) == 0 {
		refuse(w, 400, "bad_request", "malformed request")
		return
	}
	for _, other := range e.behind() {
		if strings.EqualFold(r.Header.Get("X-Model-Pub-Key"), other.Public()) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			other.chat(w, r)
			return
		}
	}
	client, sealed, refusal := e.client(r.Header)
	if refusal != "" {
		refuse(w, 400, refusal, "E2EE: "+refusal)
		return
	}
	turns, err := e.turns(&a, sealed)
	if err != nil {
		refuse(w, 400, "e2ee_decryption_failed", err.Error())
		return
	}
	at := e.note(&Request{Header: r.Header.Clone(), Body: body, Turns: turns})
	lie := e.Lie()
	if sealed && lie != NoHeader {
		w.Header().Set("X-E2EE-Applied", "true")
		w.Header().Set("X-E2EE-Version", "1")
		w.Header().Set("X-E2EE-Algo", "ecdsa")
	}
	id := make([]byte, 12)
	rand.Read(id)
	reply := &reply{id: "chatcmpl-" + hex.EncodeToString(id), model: a.Model, client: client,
		sealed: sealed && lie != PlainReply, prompt: tokens(turns)}
	words := []string{"You", " said", " ", turns[len(turns)-1], "."}
	if lie == PlainReply {
		words = append(words, " "+KnownMarker)
	}
	if a.MaxTokens > 0 {
		words = words[:min(len(words), a.MaxTokens)]
	}
	sum := sha256.New()
	var out bytes.Buffer
	write := io.MultiWriter(w, sum, &out)
	usage := a.Options.Usage && lie != NoUsage
	if a.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		reply.stream(write, w.(http.Flusher), words, usage)
	} else {
		w.Header().Set("Content-Type", "application/json")
		reply.whole(write, words, lie != NoUsage)
	}
	e.sign(at, reply.id, sha256.Sum256(body), [32]byte(sum.Sum(nil)), out.Bytes(), lie)
}

// client reads the three headers of a sealed chat.
func (e *Enclave) client(h http.Header) (key *secp256k1.PublicKey, sealed bool, refusal string) {
	algo, client, model := h.Get("X-Signing-Algo"), h.Get("X-Client-Pub-Key"), h.Get("X-Model-Pub-Key")
	switch {
	case client == "" && model == "":
		return nil, false, ""
	case client == "" || model == "":
		return nil, false, "e2ee_header_missing"
	case algo != "ecdsa":
		return nil, false, "e2ee_invalid_signing_algo"
	case !strings.EqualFold(strings.TrimPrefix(model, "04"), e.Public()[2:]) && !strings.EqualFold(model, e.Public()):
		return nil, false, "e2ee_model_key_mismatch"
	}
	raw, err := hex.DecodeString(client)
	if err == nil {
		key, err = secp256k1.ParsePubKey(raw)
	}
	if err != nil {
		return nil, false, "e2ee_invalid_public_key"
	}
	return key, true, ""
}

func (e *Enclave) note(r *Request) *Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.requests = append(e.requests, r); len(e.requests) > keptRequests {
		e.requests = slices.Delete(e.requests, 0, keptRequests/2)
	}
	return r
}

// sign stores the enclave's signature of an answer.
func (e *Enclave) sign(at *Request, id string, request, response [32]byte, answer []byte, lie string) {
	if lie == WrongHash {
		response[0] ^= 1
	}
	by := e.identity
	if lie == ForgedSig {
		by, _ = newIdentity()
	}
	text := hex.EncodeToString(request[:]) + ":" + hex.EncodeToString(response[:])
	s := signed{text, by.sign(text)}
	e.mu.Lock()
	defer e.mu.Unlock()
	at.Answer = answer
	if lie == NoSignature {
		return
	}
	e.answers[id] = s
	if e.order = append(e.order, id); len(e.order) > keptAnswers {
		delete(e.answers, e.order[0])
		e.order = e.order[1:]
	}
}

func tokens(turns []string) (n int) {
	for _, t := range turns {
		n += 3 + len(strings.Fields(t))
	}
	return n
}

// reply is an answer on its way.
type reply struct {
	id, model string
	client    *secp256k1.PublicKey
	sealed    bool
	prompt    int
}

func (r *reply) text(word string) string {
	if !r.sealed {
		return word
	}
	s, err := seal(r.client, word)
	if err != nil {
		panic("enclave: " + err.Error())
	}
	return s
}

func (r *reply) usage(n int) object {
	return object{"prompt_tokens": r.prompt, "completion_tokens": n, "total_tokens": r.prompt + n}
}

func (r *reply) stream(w io.Writer, flush http.Flusher, words []string, usage bool) {
	event := func(choices []object, more object) {
		o := object{"id": r.id, "object": "chat.completion.chunk", "created": 1, "model": r.model, "choices": choices}
		for k, v := range more {
			o[k] = v
		}
		raw, err := json.Marshal(o)
		if err != nil {
			panic("enclave: " + err.Error())
		}
		fmt.Fprintf(w, "data: %s\n\n", raw)
		flush.Flush()
	}
	choice := func(delta object, finish any) []object {
		return []object{{"index": 0, "delta": delta, "finish_reason": finish}}
	}
	event(choice(object{"role": "assistant", "content": ""}, nil), nil)
	for _, word := range words {
		event(choice(object{"content": r.text(word)}, nil), nil)
		time.Sleep(time.Millisecond)
	}
	event(choice(object{}, "stop"), nil)
	if usage {
		event([]object{}, object{"usage": r.usage(len(words))})
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
	flush.Flush()
}

func (r *reply) whole(w io.Writer, words []string, usage bool) {
	o := object{"id": r.id, "object": "chat.completion", "created": 1, "model": r.model, "choices": []object{{"index": 0,
		"finish_reason": "stop", "message": object{"role": "assistant", "content": r.text(strings.Join(words, ""))}}}}
	if usage {
		o["usage"] = r.usage(len(words))
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic("enclave: " + err.Error())
	}
	_, _ = w.Write(raw)
}
