package chat

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/providers/tee/seal"
	"farebox/proxy"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
	"farebox/routes"
)

// End-to-end encryption (interface.md, Chat; addendum 15.2, 15.3): the rules for its headers and
// bodies, and the sealing of turns that came in the clear.

// algorithm is the one of X-<Brand>-TEE-Signing-Algo that there is.
const algorithm = "ecdsa"

// sealNames are the request headers of end-to-end encryption under one word of the brand.
type sealNames struct {
	prefix   []byte    // of all of them
	needed   [3]string // client's key, model's key, algorithm
	reserved [3]string // of another version of the protocol
}

func newSealNames(word string) (n sealNames) {
	name := func(rest string) string { return string(routes.BrandHeader(word, "tee-"+rest)) }
	n.prefix = []byte(name(""))
	n.needed = [...]string{name("client-pub-key"), name("model-pub-key"), name("signing-algo")}
	n.reserved = [...]string{name("version"), name("nonce"), name("timestamp")}
	return n
}

// teeNames are the response headers of models that run in enclaves.
type teeNames struct{ is, provider, mode, request []byte }

func newTEENames(brand string) teeNames {
	name := func(rest string) []byte { return routes.BrandHeader(brand, rest) }
	return teeNames{name("tee"), name("tee-provider"), name("tee-mode"), name("tee-request-hash")}
}

// list are all of them.
func (n *teeNames) list() [][]byte { return [][]byte{n.is, n.provider, n.mode, n.request} }

// runsEnclaves says that some model of a config runs in one.
func runsEnclaves(cfg *config.Config) bool {
	for i := range cfg.Models {
		if text, ok := cfg.Models[i].Spec.(*config.Chat); ok && text.Enclave != nil {
			return true
		}
	}
	return false
}

// asksToSeal says that a client has sent one of the headers: an empty one, too, since who
// means to encrypt must not be answered as if it did not. It is asked of every chat, so
// it goes over the headers once.
func (v *view) asksToSeal(h *fasthttp.RequestHeader) bool {
	for name := range h.All() {
		for i := range v.seals {
			if n := &v.seals[i]; bytes.HasPrefix(name, n.prefix) &&
				(slices.Contains(n.needed[:], string(name)) || slices.Contains(n.reserved[:], string(name))) {
				return true
			}
		}
	}
	return false
}

// badHeaders is the refusal of headers (addendum 15.2), in the form that all clients of
// encrypted chats read.
func badHeaders(code, text string) *routes.Error {
	return &routes.Error{Status: 400, Code: code, Param: "headers", Message: "Invalid E2EE headers: " + text}
}

// readSealHeaders takes the keys of a client that asks for encryption.
func (c *inference) readSealHeaders() *routes.Error {
	h := &c.call.Ctx.Request.Header
	var values [3]string
	used := -1
	for i := range c.view.seals {
		names := &c.view.seals[i]
		for _, name := range names.reserved {
			if len(h.PeekAll(name)) > 0 {
				return badHeaders("e2ee_invalid_version", name+" belongs to a version of the protocol that is not spoken "+
					"here; leave it out.")
			}
		}
		for at, name := range names.needed {
			all := h.PeekAll(name)
			if len(all) == 0 {
				continue
			}
			if len(all) > 1 || used >= 0 && used != i {
				return badHeaders("e2ee_header_missing", "each of the three must be sent once, under one name.")
			}
			used, values[at] = i, string(all[0])
		}
	}
	for at, name := range c.view.seals[max(used, 0)].needed {
		if values[at] == "" {
			return badHeaders("e2ee_header_missing", name+" is missing or empty; all three are needed, or none.")
		}
	}
	return c.takeKeys(values)
}

// invalidKey begins with the words that clients know (addendum 15.2).
const invalidKey = "Invalid public key: expected 130 hexadecimal digits, 04 and a point of secp256k1."

// takeKeys checks the values of the headers.
func (c *inference) takeKeys(values [3]string) *routes.Error {
	if !strings.EqualFold(values[2], algorithm) {
		return badHeaders("e2ee_invalid_signing_algo", "the signing algorithm must be "+algorithm+".")
	}
	client, err := seal.ParseKey(values[0])
	if err != nil || len(values[0]) != len(client.String()) {
		return badHeaders("e2ee_invalid_public_key", "the client's key: "+invalidKey)
	}
	if c.enclave.to, err = seal.ParseKey(values[1]); err != nil {
		return badHeaders("e2ee_invalid_public_key", "the model's key: "+invalidKey)
	}
	c.enclave.client, c.enclave.key = client.String(), c.enclave.to.String()
	return nil
}

// checkSealed refuses members that an encrypted chat cannot have (interface.md, Chat).
func (c *inference) checkSealed(v *routes.Validator) *routes.Error {
	if !c.chat.Stream {
		return routes.Unsupported("stream", "E2EE requires streaming: send stream: true.")
	}
	if path := usesTools(v); path != "" {
		return routes.Unsupported(path, "E2EE has no tools: calls and their results cannot be encrypted.")
	}
	if v.IsTrue(dialect.ChatLogprobs) || v.Integer(dialect.ChatTopLogprobs) > 0 {
		return routes.Unsupported("logprobs", "E2EE has no log probabilities: they would show the answer's words.")
	}
	if name := asksInTheClear(v); name != "" {
		return routes.Unsupported(name, "E2EE has no "+name+": its output cannot be encrypted.")
	}
	messages := v.Doc.TopIndex(dialect.ChatMessages)
	fields := v.Doc.Fields
	for m := messages + 1; m < fields[messages].Next; m = fields[m].Next {
		if e := c.checkTurn(v, m); e != nil {
			return e
		}
	}
	return nil
}

// usesTools is where a request has something of tools; empty: nowhere.
func usesTools(v *routes.Validator) (path string) {
	if f := v.Member(-1, dialect.ChatTools); f != nil && f.Len > 0 {
		return "tools"
	}
	if f := v.Member(-1, dialect.ChatToolChoice); f != nil && string(f.Raw(v.Body)) != `"none"` {
		return "tool_choice"
	}
	return ""
}

// shown are members, most of them of one server or another, by which a client asks for
// texts that no enclave seals. The answer would end at the first of them.
var shown = map[string]bool{"functions": true, "function_call": true, "modalities": true, "audio": true, "echo": true,
	"prompt_logprobs": true, "return_token_ids": true, "return_tokens_as_token_ids": true, "return_hidden_states": true}

// asksInTheClear is the first of them; empty if absent.
func asksInTheClear(v *routes.Validator) string {
	for m := range jsontext.Members(v.Body, v.Doc.Open) {
		name := string(jsontext.AppendUnescaped(nil, m.Key[:min(len(m.Key), 6*maxShown)]))
		if !shown[name] {
			continue
		}
		switch string(v.Body[m.From:m.To]) {
		case "null", "false", "[]", `["text"]`, `"none"`:
		default:
			return name
		}
	}
	return ""
}

// maxShown is the length of the longest name of them, and more.
const maxShown = 32

// checkTurn checks one message. Turns of users and the system must be sealed; published clients
// leave the assistants' in the clear.
func (c *inference) checkTurn(v *routes.Validator, m int32) *routes.Error {
	role := string(v.Text(m, dialect.MessageRole))
	at := func(member string) string { return v.Doc.Path(m) + "." + member }
	const noTools = "E2EE has no tools: calls and their results cannot be encrypted."
	if role == "tool" {
		return routes.Unsupported(at("role"), noTools)
	}
	if f := v.Member(m, dialect.MessageToolCalls); f != nil && f.Len > 0 {
		return routes.Unsupported(at("tool_calls"), noTools)
	}
	content := v.Member(m, dialect.MessageContent)
	switch {
	case content == nil:
		return nil
	case content.Kind != scan.String:
		return routes.Unsupported(at("content"), "E2EE has no content in parts: "+at("content")+" must be one string.")
	case seal.Sealed(v.Text(m, dialect.MessageContent)):
		return nil
	case role != "user" && role != "system" && *c.call.Config().TEE.SealPlainTurns:
		return nil // by us
	}
	return routes.Invalid(routes.Issue{Code: "invalid_string", Path: at("content"),
		Message: at("content") + ": Encrypted field is not valid hex: expected a text sealed to the model's key, in " +
			"186 or more hexadecimal digits."})
}

// sealTurns seals the turns that came in the clear, since an enclave opens all of them. It
// takes no secret from the client that we had not been shown, and keeps it from those
// between us and the enclave.
func (c *inference) sealTurns() *routes.Error {
	var box *seal.Box
	var patches []proxy.Patch
	doc, messages := c.chat.Doc, c.chat.Doc.TopIndex(dialect.ChatMessages)
	near := c.call.Model.Chat.Enclave.Kind == "near" // it opens what assistants thought, too
	for m := messages + 1; m < doc.Fields[messages].Next; m = doc.Fields[m].Next {
		for _, id := range [...]int{dialect.MessageContent, dialect.MessageReasoningContent} {
			at := doc.Member(m, id)
			if at < 0 || doc.Fields[at].Kind != scan.String || id != dialect.MessageContent && !near ||
				seal.Sealed(c.chat.Text(at)) {
				continue
			}
			if box == nil {
				var err error
				if box, err = c.enclave.to.Box(); err != nil {
					c.call.Logger().Error().Err(err).Bytes("request_id", c.call.ID[:]).Msg("cannot seal a turn")
					return &routes.Error{Status: 500, Code: "INFERENCE_FAILED",
						Message: "The request could not be encrypted; nothing was charged. Please retry."}
				}
			}
			text := jsontext.AppendUnescaped(nil, c.chat.Text(at))
			sealed := append(box.Append([]byte{'"'}, text), '"')
			patches = c.put(patches, at, string(sealed))
		}
	}
	return c.rewrite(patches)
}

// sealFaults are the codes by which enclaves refuse a sealed chat, with our words for them: an
// enclave's own words may quote the opened text.
var sealFaults = map[string]string{
	"e2ee_header_missing":        "a header is missing",
	"e2ee_invalid_signing_algo":  "the signing algorithm is not supported",
	"e2ee_invalid_public_key":    "Invalid public key",
	"e2ee_model_key_mismatch":    "the model key is no longer that of the model; fetch a fresh attestation",
	"e2ee_invalid_version":       "the version of the protocol is not supported",
	"e2ee_invalid_nonce":         "the nonce is not valid",
	"e2ee_replay_detected":       "the request was sent before",
	"e2ee_invalid_timestamp":     "the timestamp is not valid",
	"e2ee_invalid_payload_model": "the model of the request is not valid",
	"e2ee_decryption_failed":     "Failed to decrypt field",
	"e2ee_unsupported_endpoint":  "the endpoint has no encryption",
}

// silence takes the words of an enclave out of its refusal of a sealed chat: they may be about
// the opened text. Its code, if it is a known one, is sent.
func (c *inference) silence(body []byte) {
	f := &c.reply.failure
	f.Silence()
	for _, word := range dialect.ErrorNames(body) {
		if text, known := sealFaults[word]; known && f.Status == 400 {
			f.Code, f.Param, f.Message = word, "headers", "E2EE: "+text+"."
			return
		}
	}
}
