package routes

import (
	"strconv"

	"farebox/config"
	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
)

// embedTop are the rules of an embeddings body (addendum 11). The body is
// strict: members that are not here are refused.
var embedTop = map[string]*Rule{
	"model":           {Kinds: String, Required: true, NonEmpty: true, Length: 256},
	"input":           {Kinds: String | Array, Required: true, NonEmpty: true},
	"encoding_format": {Kinds: String, Enum: []string{"float", "base64"}},
	"dimensions":      {Kinds: Number, Integer: true, Min: 1, Max: inf},
	"user":            {Kinds: String},
}

// maxEmbedInputs is the most strings in one request (addendum 11).
const maxEmbedInputs = 2048

// embedRules is what the embeddings endpoint checks; it is the same for every brand.
type embedRules struct{ book *Rulebook }

func newEmbedRules() *embedRules {
	return &embedRules{book: NewRulebook(dialect.EmbedShape(), embedTop)}
}

// serveEmbeddings answers POST /embeddings (addendum 11): the same path as
// chat, with a price for the prompt only.
func serveEmbeddings(call *Call) *Error {
	c := call.g.inference(call)
	rules := c.snap.embed
	if e := c.readChatBody(rules.book.Root); e != nil {
		return e
	}
	v := Validator{Body: c.chat.Body, Doc: &c.Doc, Book: rules.book}
	v.CheckAll()
	if !c.Config().Compat.TokenInput || !v.tokenInput() {
		v.CheckElements(dialect.EmbedInput, embedElement)
	}
	if i := c.Doc.TopIndex(dialect.EmbedInput); i >= 0 && c.Doc.Fields[i].Kind == scan.Array && c.Doc.Fields[i].Len > maxEmbedInputs && !v.oneTokenList {
		v.Add(Issue{Code: "too_big", Path: "input", Maximum: "2048", Message: "input: must have at most 2048 elements, has " + strconv.Itoa(int(c.Doc.Fields[i].Len)) + "."})
	}
	if unknown := c.Doc.Members - len(c.Doc.Fields); unknown > 0 {
		v.Add(Issue{Code: "unrecognized_keys", Message: "This endpoint takes only model, input, encoding_format, dimensions and user; the body has " + strconv.Itoa(unknown) + " more."})
	}
	c.chat.Embedding = true
	c.NoteUser(v.Text(-1, dialect.TopUser))
	if e := c.chooseModel("embedding", &v); e != nil {
		return e
	}
	if v.Member(-1, dialect.EmbedDimensions) != nil && !c.Model.Config.Spec.(*config.Embedding).CustomDimensions {
		return Unsupported("dimensions", "Model "+c.Model.ID+" does not support custom dimensions.")
	}
	return c.infer()
}

// tokenInput checks input that is token numbers: one list of them, or a list of
// such lists (compat.token_input). false: it is neither, but text.
func (v *Validator) tokenInput() bool {
	i := v.Doc.TopIndex(dialect.EmbedInput)
	if i < 0 || v.Doc.Fields[i].Kind != scan.Array || v.Doc.Fields[i].Len == 0 {
		return false
	}
	raw := v.Doc.Fields[i].Raw(v.Body)
	from, _, ok := dialect.NextElement(raw, 1)
	if !ok || raw[from] == '"' {
		return false
	}
	if raw[from] != '[' {
		v.oneTokenList = true
		v.checkTokens(raw, "input")
		return true
	}
	for at, n := 1, 0; len(v.Issues) == 0; n++ {
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
func (v *Validator) checkTokens(raw []byte, path string) {
	if raw[0] != '[' {
		v.Add(Issue{Code: "invalid_type", Path: path, Expected: "array", Message: path + ": expected an array of token numbers, like those before it."})
		return
	}
	for at, n := 1, 0; ; n++ {
		from, to, ok := dialect.NextElement(raw, at)
		if !ok {
			if n == 0 {
				v.Add(Issue{Code: "too_small", Path: path, Minimum: "1", Message: path + ": must have at least 1 element."})
			}
			return
		}
		if _, err := strconv.ParseUint(ViewString(raw[from:to]), 10, 32); err != nil {
			at := path + "." + strconv.Itoa(n)
			v.Add(Issue{Code: "invalid_type", Path: at, Expected: "integer", Message: at + ": expected a token number, an integer from 0."})
			return
		}
		at = to
	}
}

var embedElement = &Rule{Kinds: String, Required: true, NonEmpty: true}
