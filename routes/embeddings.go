package routes

import (
	"hash/maphash"
	"strconv"

	"farebox/config"
	"farebox/providers/dialect"
	"farebox/proxy/scan"
)

// embedTop are the rules of an embeddings body (addendum 11). The body is
// strict: members that are not here are refused.
var embedTop = map[string]*rule{
	"model":           {kinds: kString, required: true, nonEmpty: true, length: 256},
	"input":           {kinds: kString | kArray, required: true, nonEmpty: true},
	"encoding_format": {kinds: kString, enum: []string{"float", "base64"}},
	"dimensions":      {kinds: kNumber, integer: true, min: 1, max: inf},
	"user":            {kinds: kString},
}

// maxEmbedInputs is the most strings in one request (addendum 11).
const maxEmbedInputs = 2048

// embedRules is what the embeddings endpoint checks; it is the same for every brand.
type embedRules struct{ book *rulebook }

func newEmbedRules() *embedRules {
	return &embedRules{book: newRulebook(dialect.EmbedShape(), embedTop)}
}

// serveEmbeddings answers POST /embeddings (addendum 11): the same path as
// chat, with a price for the prompt only.
func serveEmbeddings(g *Gateway, call *Call) *Error {
	c := g.inference(call)
	rules := c.snap.embed
	if e := c.readChatBody(rules.book.root); e != nil {
		return e
	}
	v := validator{body: c.chat.Body, doc: &c.doc, book: rules.book}
	v.checkAll()
	if !c.snap.cfg.Compat.TokenInput || !v.tokenInput() {
		v.checkElements(dialect.EmbedInput, embedElement)
	}
	if i := c.doc.TopIndex(dialect.EmbedInput); i >= 0 && c.doc.Fields[i].Kind == scan.Array && c.doc.Fields[i].Len > maxEmbedInputs && !v.oneTokenList {
		v.add(Issue{Code: "too_big", Path: "input", Maximum: "2048", Message: "input: must have at most 2048 elements, has " + strconv.Itoa(int(c.doc.Fields[i].Len)) + "."})
	}
	if unknown := c.doc.Members - len(c.doc.Fields); unknown > 0 {
		v.add(Issue{Code: "unrecognized_keys", Message: "This endpoint takes only model, input, encoding_format, dimensions and user; the body has " + strconv.Itoa(unknown) + " more."})
	}
	c.chat.Embedding = true
	if user := v.text(-1, dialect.TopUser); len(user) > 0 {
		c.user = maphash.Bytes(userSeed, user)
	}
	if e := c.chooseModel("embedding", &v); e != nil {
		return e
	}
	if v.member(-1, dialect.EmbedDimensions) != nil && !c.model.Config.Spec.(*config.Embedding).CustomDimensions {
		return errUnsupported("dimensions", "Model "+c.model.ID+" does not support custom dimensions.")
	}
	return c.infer()
}

// tokenInput checks input that is token numbers: one list of them, or a list of
// such lists (compat.token_input). false: it is neither, but text.
func (v *validator) tokenInput() bool {
	i := v.doc.TopIndex(dialect.EmbedInput)
	if i < 0 || v.doc.Fields[i].Kind != scan.Array || v.doc.Fields[i].Len == 0 {
		return false
	}
	raw := v.doc.Fields[i].Raw(v.body)
	from, _, ok := dialect.NextElement(raw, 1)
	if !ok || raw[from] == '"' {
		return false
	}
	if raw[from] != '[' {
		v.oneTokenList = true
		v.checkTokens(raw, "input")
		return true
	}
	for at, n := 1, 0; len(v.issues) == 0; n++ {
		from, to, ok := dialect.NextElement(raw, at)
		if !ok {
			break
		}
		v.checkTokens(raw[from:to], "input."+strconv.Itoa(n))
		at = to
	}
	return true
}

// checkTokens checks one list of token numbers.
func (v *validator) checkTokens(raw []byte, path string) {
	if raw[0] != '[' {
		v.add(Issue{Code: "invalid_type", Path: path, Expected: "array", Message: path + ": expected an array of token numbers, like those before it."})
		return
	}
	for at, n := 1, 0; ; n++ {
		from, to, ok := dialect.NextElement(raw, at)
		if !ok {
			if n == 0 {
				v.add(Issue{Code: "too_small", Path: path, Minimum: "1", Message: path + ": must have at least 1 element."})
			}
			return
		}
		if _, err := strconv.ParseUint(bytesString(raw[from:to]), 10, 32); err != nil {
			at := path + "." + strconv.Itoa(n)
			v.add(Issue{Code: "invalid_type", Path: at, Expected: "integer", Message: at + ": expected a token number, an integer from 0."})
			return
		}
		at = to
	}
}

var embedElement = &rule{kinds: kString, required: true, nonEmpty: true}
