package rpc

// add appends a call with exactly the members that every node reads alike. params may be
// empty. The id is set when the request is sent.
func (q *question) add(method, params []byte) {
	b := append(q.body, `{"jsonrpc":"2.0","id":`...)
	at := int32(len(b))
	q.ids = append(q.ids, span{at, at})
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, '"')
	if len(params) > 0 {
		b = append(b, `,"params":`...)
		b = append(b, params...)
	}
	q.body = append(b, '}')
}

// ownQuestion is a call of the gateway's own.
func ownQuestion(m *Method, method, params string) question {
	q := question{method: m, repeats: true}
	q.add([]byte(method), []byte(params))
	return q
}

// outgoing is the request to nodes: its body, or its calls rebuilt in b without ambiguous
// parts.
func (r *Request) outgoing(b []byte, ids []span) question {
	q := question{body: b, ids: ids}
	if r.Untouched {
		for i := range r.Calls {
			q.ids = append(q.ids, r.Calls[i].id)
		}
		q.body = r.Body
		return q
	}
	if r.Batch {
		q.body = append(q.body, '[')
	}
	for i := range r.Calls {
		if i > 0 {
			q.body = append(q.body, ',')
		}
		q.add(r.MethodName(i), r.Params(i))
	}
	if r.Batch {
		q.body = append(q.body, ']')
	}
	return q
}

// question is the request to the nodes for all calls together. Its memory is the job's.
func (j *Job) question() question {
	q := j.outgoing(j.body[:0], j.ids[:0])
	if !j.Untouched {
		j.body = q.body
	}
	j.ids, q.repeats = q.ids, !j.Writes()
	return q
}
