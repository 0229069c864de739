package dialect

import "bytes"

// OpenCalls are the calls of an assistant's turn, and which of them have no result yet. Results
// usually come in the order of the calls; in any other they may be as many as a body has room
// for.
type OpenCalls struct {
	ids  [][]byte
	done []bool
	open int
	next int                // calls before it have a result, if byID is nil
	byID map[string][]int32 // the open calls by their ids, in their order
}

// Add adds a call.
func (o *OpenCalls) Add(id []byte) {
	if o.byID != nil {
		o.byID[string(id)] = append(o.byID[string(id)], int32(len(o.ids)))
	}
	o.ids, o.done = append(o.ids, id), append(o.done, false)
	o.open++
}

// Answer gives a result to the first open call with an id, and returns its number; -1: there
// is no such call.
func (o *OpenCalls) Answer(id []byte) int {
	i := o.find(id)
	if i >= 0 {
		o.done[i] = true
		o.open--
	}
	return i
}

func (o *OpenCalls) find(id []byte) int {
	if o.byID == nil {
		if o.next < len(o.ids) && bytes.Equal(o.ids[o.next], id) {
			o.next++
			return o.next - 1
		}
		o.byID = map[string][]int32{}
		for i, other := range o.ids[o.next:] {
			o.byID[string(other)] = append(o.byID[string(other)], int32(o.next+i))
		}
	}
	list := o.byID[string(id)]
	if len(list) == 0 {
		return -1
	}
	o.byID[string(id)] = list[1:]
	return int(list[0])
}

// Open is the number of the first open call; -1: all have a result.
func (o *OpenCalls) Open() int {
	if o.open > 0 {
		for i, done := range o.done {
			if !done {
				return i
			}
		}
	}
	return -1
}

// Clear begins another turn.
func (o *OpenCalls) Clear() { *o = OpenCalls{ids: o.ids[:0], done: o.done[:0]} }
