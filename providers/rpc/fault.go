package rpc

import "strconv"

// Fault is the reason for refusing a request.
type Fault struct {
	Code string // as in a validation issue: custom, invalid_type, too_big …
	Path string // method, 3.method; empty: the body itself
	Text string
}

func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Text
	}
	return f.Path + ": " + f.Text
}

func (r *Request) refuse(code string, call int, member, text string) *Fault {
	path := member
	if r.Batch && call >= 0 {
		if path = strconv.Itoa(call); member != "" {
			path += "." + member
		}
	}
	r.fault = Fault{Code: code, Path: path, Text: text}
	return &r.fault
}

func (r *Request) syntax(at int) *Fault {
	if at >= len(r.Body) {
		return r.refuse("custom", -1, "", "the request body ends before the JSON does")
	}
	return r.refuse("custom", -1, "", "the request body is not valid JSON (at byte "+strconv.Itoa(at)+")")
}
