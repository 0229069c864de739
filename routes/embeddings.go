package routes

import (
	"hash/maphash"
	"strconv"

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
func serveEmbeddings(_ *Gateway, c *Call) *Error {
	rules := c.snap.embed
	if e := c.readJSON(rules.book.root); e != nil {
		return e
	}
	v := validator{body: c.chat.Body, doc: &c.doc, book: rules.book}
	v.checkAll()
	v.checkElements(dialect.EmbedInput, embedElement)
	if i := c.doc.TopIndex(dialect.EmbedInput); i >= 0 && c.doc.Fields[i].Kind == scan.Array && c.doc.Fields[i].Len > maxEmbedInputs {
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
	if v.member(-1, dialect.EmbedDimensions) != nil && !c.model.Config.CustomDimensions {
		return errUnsupported("dimensions", "Model "+c.model.ID+" does not support custom dimensions.")
	}
	return c.infer()
}

var embedElement = &rule{kinds: kString, required: true, nonEmpty: true}
