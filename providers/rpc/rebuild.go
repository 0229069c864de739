package rpc

import "strconv"

// appendCall appends a request with exactly the members that every node reads
// alike. params may be nil.
func appendCall(b, method, params, id []byte) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, '"')
	if params != nil {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	return append(b, '}')
}

// appendSingle appends call i as a request of its own under id 1.
func (r *Request) appendSingle(b []byte, i int) []byte {
	return appendCall(b, r.MethodName(i), r.Params(i), defaultID)
}

// appendBatch appends all calls under their numbers as ids.
func (r *Request) appendBatch(b []byte) []byte {
	var id [20]byte
	b = append(b, '[')
	for i := range r.Calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCall(b, r.MethodName(i), r.Params(i), strconv.AppendInt(id[:0], int64(i), 10))
	}
	return append(b, ']')
}

// sentID is the id under which call i went to the node.
func (r *Request) sentID(b []byte, i int) []byte {
	if r.Untouched {
		return r.ID(i)
	}
	return strconv.AppendInt(b[:0], int64(i), 10)
}
