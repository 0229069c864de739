package scan

import "strconv"

// Reason is why a body was refused.
type Reason uint8

// The reasons.
const (
	Syntax    Reason = iota + 1 // not JSON
	Truncated                   // the body ends too early
	Trailing                    // something follows the object
	NotObject                   // JSON perhaps, but not an object
	TooDeep                     // more than MaxDepth brackets
	TooMany                     // more than MaxFields fields
	TooLarge                    // more than 2 GB
	Duplicate                   // a guarded member is there twice
	Variant                     // a guarded member is written in another case or with escapes
	Control                     // a raw control character inside a string
	Encoding                    // a string that is not UTF-8
)

func (r Reason) String() string {
	switch r {
	case Syntax:
		return "is not valid JSON"
	case Truncated:
		return "ends before the JSON object does"
	case Trailing:
		return "continues after the JSON object"
	case NotObject:
		return "must be a JSON object"
	case TooDeep:
		return "is nested deeper than " + strconv.Itoa(MaxDepth) + " levels"
	case TooMany:
		return "has more than " + strconv.Itoa(MaxFields) + " members"
	case TooLarge:
		return "is larger than 2 GB"
	case Duplicate:
		return "is given more than once"
	case Control:
		return "has a raw control character inside a string; write it as an escape such as \\n"
	case Encoding:
		return "is not valid UTF-8"
	case Variant:
		return "must be written in exactly these letters, without escapes"
	}
	return "is fine"
}

// Error is a refusal. It holds no text of the body but the names in Path, which
// are our own.
type Error struct {
	Offset int    // where the scan stopped
	Path   string // of the object or member concerned, empty for the body itself
	Reason Reason
}

func (e *Error) Error() string {
	switch e.Reason {
	case Duplicate, Variant:
		return e.Path + " " + e.Reason.String()
	case Control, Encoding:
		what := "the request body"
		if e.Path != "" {
			what = e.Path
		}
		return what + " " + e.Reason.String() + " (at byte " + strconv.Itoa(e.Offset) + ")"
	case Syntax, Truncated, Trailing:
		return "the request body " + e.Reason.String() + " (at byte " + strconv.Itoa(e.Offset) + ")"
	}
	return "the request body " + e.Reason.String()
}

// refuse makes the error of a walk that stopped at an offset. For a repeated or
// misspelt member the path ends in the guarded name it collides with.
func (d *Document) refuse(body []byte, at int, why Reason) *Error {
	e := &Error{Offset: at, Reason: why}
	f := &d.stack[max(d.depth, 1)-1]
	path := d.AppendPath(nil, f.field)
	if why == Duplicate || why == Variant {
		end := skipString(body, at+1)
		name := f.shape.Name(f.shape.variant(body[at+1 : end-1]))
		if len(path) > 0 {
			path = append(path, '.')
		}
		path = append(path, name...)
	}
	e.Path = string(path)
	return e
}
