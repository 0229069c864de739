package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"

	"farebox/providers/attempt"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee/seal"
	"farebox/proxy"
	"farebox/routes"
)

// mode is how a model that runs in an enclave is asked (addendum 15.1).
type mode uint8

const (
	// noEnclave: the model runs in none.
	noEnclave mode = iota
	// inEnclave: it does, and the chat is in the clear until there.
	inEnclave
	// endToEnd: the chat is sealed between the client and the enclave.
	endToEnd
)

// String is the word for it in headers and in the log.
func (m mode) String() string {
	switch m {
	case inEnclave:
		return "tee"
	case endToEnd:
		return "e2ee"
	}
	return ""
}

// enclosure is the part of a chat whose model runs in an enclave.
type enclosure struct {
	mode   mode
	only   [1]*dialect.Target // that a sealed chat is for
	client string             // the client's key
	key    string             // that the chat is sealed to, in 130 digits
	to     seal.Key           // the same
	stream dialect.Enclosed   // the answer; nil: it is not a stream, or has not begun

	unready  bool // no target was ready
	withheld bool // the answer is not sealed
	request  [sha256.Size]byte
	digest   hash.Hash // of the relayed bytes, kept for other requests
	sums     [sha256.Size]byte
	id       []byte // of the completion
}

// reset clears it for another request.
func (n *enclosure) reset() {
	digest, id := n.digest, n.id[:0]
	if digest != nil {
		digest.Reset()
	}
	*n = enclosure{digest: digest, id: id}
}

// encrypts says that chats may be sealed to a model: the config checks its id.
func encrypts(m *dialect.Model) bool {
	n := m.Chat.Enclave
	return n != nil && *n.Encrypted
}

// enclose decides how a model that runs in an enclave is asked, and refuses features that it
// cannot have then. Nothing has been held or sent yet.
func (c *inference) enclose(v *routes.Validator, use *features, f *brandFlags) *routes.Error {
	m := c.call.Model
	able := encrypts(m)
	sent := c.view.asksToSeal(&c.call.Ctx.Request.Header)
	switch {
	case sent && !able && (f.e2ee || m.Chat.Enclave == nil):
		return routes.Unsupported("headers", "Model "+m.ID+" does not support end-to-end encryption.")
	case m.Chat.Enclave == nil:
		return nil
	case c.chat.Form != nil:
		return routes.Unsupported("model", "Models that run in an enclave are not served here: their answers are "+
			"passed on as they are; use "+routes.Prefix+"/chat/completions.")
	}
	c.enclave.mode, c.chat.Verbatim = inEnclave, true
	if sent && f.e2ee {
		c.enclave.mode, c.chat.Sealed = endToEnd, true
		if e := c.readSealHeaders(); e != nil {
			return e
		}
	}
	if e := c.checkEnclosed(use, f); e != nil || !c.chat.Sealed {
		return e
	}
	return c.checkSealed(v)
}

// flagPath is a member of the <brand>_parameters as the client wrote their name.
func (c *inference) flagPath(f *brandFlags, name string) string {
	word := f.word
	if word == "" {
		word = c.brandWord(0)
	}
	return word + "_parameters." + name
}

// checkEnclosed refuses features that change the request or the answer on their way: the enclave
// signs for the bytes.
func (c *inference) checkEnclosed(use *features, f *brandFlags) *routes.Error {
	what := ""
	switch {
	case f.character != "":
		what = "character_slug"
	case f.webSearch != "" && f.webSearch != "off":
		what = "enable_web_search"
	case f.scraping:
		what = "enable_web_scraping"
	case f.citations:
		what = "enable_web_citations"
	case f.xSearch:
		what = "enable_x_search"
	case f.strip:
		what = "strip_thinking_response"
	case f.disable:
		what = "disable_thinking"
	}
	if what != "" {
		return routes.Unsupported(c.flagPath(f, what), "Model "+c.call.Model.ID+" runs in an enclave: its requests and "+
			"answers are passed on as they are, so "+what+" cannot be used.")
	}
	if use.files > 0 && !c.call.Model.Chat.Capabilities.Files {
		return routes.Unsupported("messages", "Model "+c.call.Model.ID+" does not support file input.")
	}
	return nil
}

// chooseEnclaveTarget finds the target of the chat: the one that has the key which it is
// sealed to, else one that is ready. It is the last check before anything is held.
func (c *inference) chooseEnclaveTarget() *routes.Error {
	n := &c.enclave
	switch {
	case n.mode == noEnclave:
		return nil
	case c.owner.enclaves == nil:
		return c.offline() // nobody looks after them
	case n.mode == inEnclave:
		for _, t := range c.call.Model.Targets {
			if c.owner.enclaves.Ready(c.call, t) {
				return nil
			}
		}
		return c.offline()
	}
	var e *routes.Error
	n.only[0], e = c.owner.enclaves.Attested(c.call, c.call.Model, n.key)
	return e
}

// offline is the answer of a model none of whose enclaves is ready.
func (c *inference) offline() *routes.Error {
	return &routes.Error{Status: 503, Code: "MODEL_OFFLINE", RetryAfter: routes.OverloadRetry,
		Message: "Model " + c.call.Model.ID + " is not verified to run in its enclave right now; please retry later."}
}

// mayAsk says whether a target of an enclave's model may have a request: it is looked
// again before each, also for questions of our own.
func (c *inference) mayAsk(t *dialect.Target) bool {
	if t.Model.Chat == nil || t.Model.Chat.Enclave == nil {
		return true
	}
	if c.chat.Sealed && t != c.enclave.only[0] || c.owner.enclaves == nil || !c.owner.enclaves.Ready(c.call, t) {
		c.enclave.unready = true
		return false
	}
	return true
}

// candidates are the targets that may be asked.
func (c *inference) candidates() []*dialect.Target {
	if c.chat.Sealed {
		return c.enclave.only[:]
	}
	return c.call.Model.Targets
}

// complete puts the client's headers under the names that enclaves know, and hashes the body that
// is about to be sent. No other header of a client is ever sent on.
func (n *enclosure) complete(r *proxy.Request) {
	switch n.mode {
	case noEnclave:
		return
	case endToEnd:
		r.Further = proxy.Fields{{"X-Signing-Algo", algorithm}, {"X-Client-Pub-Key", n.client}, {"X-Model-Pub-Key", n.key}}
	}
	if n.digest == nil {
		n.digest = sha256.New()
	}
	n.digest.Reset()
	proxy.WritePatched(n.digest, r.Body, r.Patches)
	n.digest.Sum(n.request[:0])
	n.digest.Reset()
}

// applied says that the enclave has opened the request, as far as those of its kind say
// so; for others the answer itself tells.
func (c *inference) applied() bool {
	return c.call.Model.Chat.Enclave.Kind == "near" || strings.EqualFold(string(c.x.Header("X-E2EE-Applied")), "true")
}

// unsealed judges an answer that is not sealed, before any of it went to the client.
func (c *inference) unsealed() attempt.Verdict {
	c.withhold()
	return attempt.Verdict{Do: attempt.Fail}
}

// withhold notes that the answer is not sealed. A target that has answered in the clear is
// not asked until it is verified again; for all else that is not sealed a parameter of the
// client's may be the reason, which is no reason to take the enclave from others.
func (c *inference) withhold() {
	n := &c.enclave
	if n.withheld {
		return
	}
	n.withheld = true
	c.owner.unsealed.Inc()
	if n.stream == nil || n.stream.Betrayed() {
		c.owner.enclaves.Betrayed(c.call, c.target)
	}
}

const (
	codeUnsealed = "e2ee_plaintext_response"
	textUnsealed = "The model's answer was not encrypted; it was withheld from here on."
)

var notSealed = dialect.Fault{Code: codeUnsealed, Kind: "server_error", Message: textUnsealed}

// errUnsealed is the answer to a chat whose model's answer is not sealed from its start.
func errUnsealed() *routes.Error {
	return &routes.Error{Status: 502, Code: codeUnsealed, Param: "headers",
		Message: "The model's answer was not encrypted and was withheld; nothing was charged. Please fetch a fresh " +
			"attestation and retry."}
}

// isUnsealed says that the stream was found not to be sealed.
func (c *inference) isUnsealed() bool { return c.enclave.stream != nil && c.enclave.stream.Unsealed() }

// sum adds the next bytes of the answer to the digest of all relayed bytes.
func (c *inference) sum(out []byte) {
	if c.enclave.mode != noEnclave {
		c.enclave.digest.Write(out) // never fails
	}
}

// noteAnswer keeps the digests that the enclave's signature of an answer is compared with, before
// the client has its last byte.
func (c *inference) noteAnswer() {
	n := &c.enclave
	if n.mode == noEnclave {
		return
	}
	if n.stream != nil {
		n.id = append(n.id[:0], n.stream.ID()...)
	}
	if len(n.id) == 0 {
		return
	}
	n.digest.Sum(n.sums[:0])
	a := &routes.EnclaveAnswer{ID: string(n.id), Target: c.target, Request: n.request, Response: n.sums}
	if n.mode == endToEnd {
		a.Key = n.key
	}
	c.owner.enclaves.Answered(c.call, a)
}

// setEnclave says how the chat was carried out, and which bytes were sent for it.
func (c *inference) setEnclave() {
	n := &c.enclave
	if n.mode == noEnclave {
		return
	}
	h := &c.call.Ctx.Response.Header
	h.SetCanonical(c.view.tee.is, []byte("true"))
	if provider := c.call.Model.Chat.Enclave.Provider; provider != "" {
		h.SetCanonical(c.view.tee.provider, routes.ViewBytes(provider))
	}
	h.SetCanonical(c.view.tee.mode, routes.ViewBytes(n.mode.String()))
	h.SetCanonical(c.view.tee.request, hex.AppendEncode(nil, n.request[:]))
}
