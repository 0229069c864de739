package responses

import (
	"bytes"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// Keeper keeps items of an answer, so that later requests may refer to them by their ids.
type Keeper interface{ KeepItem(id, item []byte) }

// ResponseKeeper keeps whole answers, so that later requests may go on from them.
type ResponseKeeper interface{ KeepResponse(id, response []byte) }

const (
	// maxKeptItems is how many items of a response are kept.
	maxKeptItems = 64
	// missedThought names an unknown reference to a reasoning item.
	missedThought dialect.Omission = "input.reasoning_reference"
)

// noItem is an item of the input that says nothing: it keeps the places of the others.
var noItem = []byte(`{"type":"web_search_call"}`)

// Stores says whether the body lets its answer be kept.
func (f *Form) Stores() bool {
	i := f.doc.TopIndex(TopStore)
	return i < 0 || f.doc.Fields[i].Kind != scan.False
}

// KeepItems gives each whole item of the answer to k before the client gets it.
func (f *Form) KeepItems(k Keeper) { f.keeper = k }

// keep has an item kept.
func (f *Form) keep(item []byte) {
	if f == nil {
		return
	}
	if f.whole != nil {
		f.heard = append(append(f.heard, item...), ',')
	}
	if f.keeper == nil || f.kept == maxKeptItems {
		return
	}
	id := jsontext.StringIn(item, "id")
	if len(id) == 0 {
		return
	}
	if f.kept++; f.waits {
		f.waiting = append(f.waiting, bytes.Clone(item))
		return
	}
	f.keeper.KeepItem(id, item)
}

// Attempt is dialect.Keeping's.
func (f *Form) Attempt() {
	f.kept, f.heard, f.waits, f.waiting, f.response = 0, f.heard[:0], true, nil, nil
}

// Take is dialect.Keeping's.
func (f *Form) Take() {
	for _, item := range f.waiting {
		f.keeper.KeepItem(jsontext.StringIn(item, "id"), item)
	}
	if f.response != nil {
		f.whole.KeepResponse(jsontext.StringIn(f.response, "id"), f.response)
	}
	f.waits, f.waiting, f.response = false, nil, nil
}

var _ dialect.Keeping = (*Form)(nil)

// MissThoughts says that a thought that the input refers to is not known, and left out.
func (f *Form) MissThoughts() { f.missed = true }

// Reference is an item of the input that refers to an item of an earlier answer.
type Reference struct {
	Field int32
	ID    []byte // as between the quotes of a JSON string; nil: an earlier one has the same
}

// Thought says whether it refers to a thought, which a model can go on without.
func (r *Reference) Thought() bool { return bytes.HasPrefix(r.ID, []byte(idHeads[reasoningItem])) }

// References are those of a body that has Shape, but at most so many.
func References(body []byte, doc *scan.Document, most int) (refs []Reference) {
	list := doc.TopIndex(TopInput)
	if list < 0 || doc.Fields[list].Kind != scan.Array {
		return nil
	}
	known := map[string]bool{}
	for i := list + 1; i < doc.Fields[list].Next && len(refs) < most; i = doc.Fields[i].Next {
		if doc.Fields[i].Kind != scan.Object || kindOfItem(body, doc, i) != "item_reference" {
			continue
		}
		id := doc.StringAt(body, doc.Member(i, ItemID))
		switch {
		case len(id) == 0:
			continue
		case known[string(id)]:
			id = nil // the item is there once
		default:
			known[string(id)] = true
		}
		refs = append(refs, Reference{Field: i, ID: id})
	}
	return refs
}

// Resolve is the body with items in the places of references; nil: with nothing there.
func Resolve(body []byte, doc *scan.Document, refs []Reference, items [][]byte) []byte {
	size := len(body)
	for _, item := range items {
		size += len(item)
	}
	out, at := make([]byte, 0, size), 0
	for i, item := range items {
		if item == nil {
			item = noItem
		}
		f := &doc.Fields[refs[i].Field]
		out = append(append(out, body[at:f.From]...), item...)
		at = int(f.To)
	}
	return append(out, body[at:]...)
}
