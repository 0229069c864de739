package responses

import (
	"strconv"

	form "farebox/providers/chat/responses"
	"farebox/routes"
)

const (
	// maxReferences is how many items of earlier answers a request may refer to, and
	// foundAtOnce how many are looked up in one step.
	maxReferences = 2048
	foundAtOnce   = 32
)

// resolved is the result of resolving references.
type resolved struct {
	items       [][]byte      // nil for each without one
	thoughtless bool          // a thought is not known, and left out
	missing     *routes.Error // why a keyed request cannot be carried out; an answer of it may be kept
}

// resolve puts items of earlier answers in the places of references to them, and reads the body
// again: the items are checked, held, priced and sent like the client's own words. Nothing is
// written.
func resolve(call *routes.Call, v *routes.Validator) (r resolved, e *routes.Error) {
	if len(v.Issues) > 0 || !call.Items().On() {
		return r, nil
	}
	refs := form.References(call.Body, &call.Doc, maxReferences+1)
	switch {
	case len(refs) == 0:
		return r, nil
	case len(refs) > maxReferences:
		return r, routes.Invalid(routes.Issue{Code: "too_big", Path: "input", Maximum: strconv.Itoa(maxReferences),
			Message: "input: at most " + strconv.Itoa(maxReferences) + " items of type item_reference are taken; send the " +
				"items themselves."})
	}
	r.items = make([][]byte, len(refs))
	if e := r.find(call, refs); e != nil {
		if !call.Keyed() {
			return r, e
		}
		r.missing = e
	}
	body := form.Resolve(call.Body, &call.Doc, refs, r.items)
	if e := call.UseJSON(body, v.Book.Root); e != nil {
		return r, e
	}
	recheck(call, v)
	return r, nil
}

// recheck checks a body that items were put into.
func recheck(call *routes.Call, v *routes.Validator) {
	*v = routes.Validator{Body: call.Body, Doc: &call.Doc, Book: v.Book}
	v.CheckAll()
	check(v)
}

// find looks the items up.
func (r *resolved) find(call *routes.Call, refs []form.Reference) *routes.Error {
	size := len(call.Body)
	for from := 0; from < len(refs); from += foundAtOnce {
		some := refs[from:min(from+foundAtOnce, len(refs))]
		ids := make([][]byte, len(some))
		for i := range some {
			ids[i] = some[i].ID
		}
		found, e := call.Items().Find(ids, size)
		if e != nil {
			return e
		}
		for i, item := range found {
			switch ref := &some[i]; {
			case ref.ID == nil:
			case item != nil:
				r.items[from+i] = item
				size += len(item)
			case ref.Thought():
				r.thoughtless = true
			default:
				return unknownItem(call, ref)
			}
		}
	}
	return nil
}

// unknownItem is the answer to a reference to an item that was not kept, is no longer, or
// is another account's.
func unknownItem(call *routes.Call, ref *form.Reference) *routes.Error {
	path := call.Doc.Path(ref.Field) + ".id"
	issue := routes.Issue{Code: "custom", Path: path, Message: path + ": unknown item " + routes.Excerpt(ref.ID) + "."}
	return &routes.Error{Status: 404, Code: "ITEM_NOT_FOUND", Issues: []routes.Issue{issue}, Message: issue.Message +
		" Items of this account's answers can be referred to for some time, unless store was false. Send the item itself."}
}
