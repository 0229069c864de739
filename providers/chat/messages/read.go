package messages

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Read makes the chat body that a client's body asks for. doc is a scan of it with
// Shape, whose types were checked. searchless says that the model cannot search the web.
// wrong has the members that no upstream may get; members for upstreams with Messages only are in
// the Form's Untold.
func Read(body []byte, doc *scan.Document, searchless bool) (f *Form, chat []byte, wrong []dialect.Unsupported) {
	r := &reader{body: body, doc: doc, f: &Form{body: body, doc: doc}, searchless: searchless}
	r.b = make([]byte, 0, len(body)+len(body)/8+256)
	r.b = append(r.b, `{"model":`...)
	if model := r.top(TopModel); model != nil {
		r.b = append(r.b, model...)
	} else {
		r.b = append(r.b, `""`...)
	}
	r.messages()
	r.options()
	r.tools()
	r.reasoning()
	r.output()
	r.rejectCostly()
	r.unknown()
	r.b = append(r.b, '}')
	return r.f, r.b, r.wrong
}

// reader is one body being read.
type reader struct {
	body  []byte
	doc   *scan.Document
	f     *Form
	b     []byte
	wrong []dialect.Unsupported

	searchless bool // the model cannot search the web

	turns int
	// shown has the names of tools: true if a search for tools has found it or it was added,
	// false if it was taken away.
	shown map[string]bool
}

// top is the text of a top member's value; nil if absent, or it is null.
func (r *reader) top(id int) []byte { return r.raw(r.doc.TopIndex(id)) }

// raw is the text of a field's value; nil if absent or null.
func (r *reader) raw(i int32) []byte { return r.doc.RawAt(r.body, i) }

// member is the index of an object's member; -1 if absent, or it is null.
func (r *reader) member(parent int32, id int) int32 {
	if parent < 0 {
		return -1
	}
	if i := r.doc.Member(parent, id); i >= 0 && r.doc.Fields[i].Kind != scan.Null {
		return i
	}
	return -1
}

// text is the raw content of a string field; nil if it is not one.
func (r *reader) text(i int32) []byte { return r.doc.StringAt(r.body, i) }

func (r *reader) isTrue(i int32) bool { return i >= 0 && r.doc.Fields[i].Kind == scan.True }

func (r *reader) isArray(i int32) bool { return i >= 0 && r.doc.Fields[i].Kind == scan.Array }

func (r *reader) isObject(i int32) bool { return i >= 0 && r.doc.Fields[i].Kind == scan.Object }

// each calls f for the elements of an array that are objects.
func (r *reader) each(list int32, f func(i int32)) {
	if !r.isArray(list) {
		return
	}
	for i := list + 1; i < r.doc.Fields[list].Next; i = r.doc.Fields[i].Next {
		if r.doc.Fields[i].Kind == scan.Object {
			f(i)
		}
	}
}

// put appends a member of the chat body; nil leaves it out.
func (r *reader) put(name string, raw []byte) {
	if raw != nil {
		r.b = append(append(append(r.b, `,"`...), name...), `":`...)
		r.b = append(r.b, raw...)
	}
}

const maxWrong = 20

// no notes a member that no upstream gets.
func (r *reader) no(path, format string, args ...any) {
	said := func(u dialect.Unsupported) bool { return u.Path == path }
	if len(r.wrong) < maxWrong && !slices.ContainsFunc(r.wrong, said) {
		r.wrong = append(r.wrong, dialect.Unsupported{Path: path, Own: true,
			Text: path + ": " + fmt.Sprintf(format, args...)})
	}
}

// untold notes a member that no chat body has a word for. A client gets the first
// of them as an error where its model has no upstream that speaks Messages.
func (r *reader) untold(path, what string) {
	if r.f.untold == nil {
		r.f.untold = &dialect.Unsupported{Path: path, Own: true, Text: path + ": " + what +
			" needs an available upstream with Anthropic's own API, which this model does not have; leave it out."}
	}
}

// options are the members that chat completions have under other names.
func (r *reader) options() {
	r.put("max_completion_tokens", r.top(TopMaxTokens))
	if raw := r.top(TopStream); raw != nil {
		r.put("stream", raw)
	}
	r.put("temperature", r.top(TopTemperature))
	r.put("top_p", r.top(TopTopP))
	r.put("top_k", r.top(TopTopK))
	r.stops()
	if user := r.text(r.member(r.doc.TopIndex(TopMetadata), MetadataUser)); user != nil {
		r.b = append(append(append(r.b, `,"user":"`...), user...), '"')
	}
	r.mark(r.doc.TopIndex(TopCache))
}

// maxStops is how many stop sequences chat completions take.
const maxStops = 4

func (r *reader) stops() {
	i := r.doc.TopIndex(TopStop)
	if !r.isArray(i) || r.doc.Fields[i].Len == 0 {
		return
	}
	r.f.stops = r.raw(i)
	if n := int(r.doc.Fields[i].Len); n > maxStops {
		r.untold("stop_sequences", "more than "+strconv.Itoa(maxStops)+" sequences")
		return
	}
	r.put("stop", r.raw(i))
}

// rejectCostly refuses members that would cost the operator beyond the price of tokens, or would
// reach into the operator's account, which all customers share.
func (r *reader) rejectCostly() {
	const account = "reaches into the provider's account that all customers of this service share; it is not sold here."
	if r.top(TopContainer) != nil {
		r.no("container", account)
	}
	if raw := r.top(TopServers); raw != nil && !bytes.Equal(raw, []byte("[]")) {
		r.no("mcp_servers", "has the provider call servers of others in the name of the operator; it is not sold here.")
	}
	if r.top(TopDiagnostics) != nil {
		r.no("diagnostics", account)
	}
	if speed := r.top(TopSpeed); speed != nil && string(speed) != `"standard"` {
		r.no("speed", "only standard is sold here; leave it out.")
	}
	if r.top(TopGeo) != nil {
		r.no("inference_geo", "where a model runs is the operator's choice; leave it out.")
	}
	if tier := r.top(TopTier); tier != nil && string(tier) != `"auto"` && string(tier) != `"standard_only"` {
		r.no("service_tier", "only auto and standard_only are sold here.")
	}
	if i := r.doc.TopIndex(TopContext); i >= 0 && r.doc.Fields[i].Kind == scan.Object {
		r.edits(i)
	}
}

// edits takes those that clear a prompt. A chat body goes on without them: its prompt is
// sent whole. Compaction uses a second model, which is not paid for.
func (r *reader) edits(context int32) {
	list := r.member(context, EditList)
	r.each(list, func(e int32) {
		kind := r.text(r.member(e, EditType))
		if !bytes.HasPrefix(kind, []byte("clear_")) {
			r.no(r.doc.Path(e)+".type", "only edits that clear tool uses or thinking are sold here.")
		}
		if keeps := r.text(r.member(e, EditKeep)); string(keeps) != "all" {
			r.f.left.Add("context_management")
		}
	})
}

// unknown refuses top members that are not known here: their cost is not either.
func (r *reader) unknown() {
	if int(r.doc.Named(-1)) == r.doc.Members {
		return
	}
	for m := range jsontext.Members(r.body, r.doc.Open) {
		if Shape.ID(string(m.Key)) < 0 && string(r.body[m.From:m.To]) != "null" {
			r.no(string(clip(m.Key)), "is not known here; leave it out.")
		}
	}
}

// clip shortens a name of the client's for a text.
func clip(name []byte) []byte { return name[:min(len(name), 64)] }

// strange notes the first member of an object that its Shape does not know.
func (r *reader) strange(i int32) {
	if !r.isObject(i) || r.f.untold != nil {
		return
	}
	f := &r.doc.Fields[i]
	shape := f.Shape
	if f.Elem < 0 {
		shape = shape.Child(int(f.Name))
	}
	if r.doc.Named(i) == f.Len || shape == nil {
		return
	}
	raw := f.Raw(r.body)
	for m := range jsontext.Members(raw, 1) {
		if shape.ID(string(m.Key)) < 0 && string(raw[m.From:m.To]) != "null" {
			r.untold(r.doc.Path(i)+"."+string(clip(m.Key)), "this member")
			return
		}
	}
}
