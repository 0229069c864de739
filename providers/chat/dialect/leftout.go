package dialect

import (
	"slices"
	"strings"
)

// Omission names a part of a request that its translation leaves out or changes. It is a
// name out of the source, such as a member of the specification. It becomes a header and
// the label of a metric, so it never is a text of the client's.
type Omission string

// maxOmissions bounds the names listed for one request.
const maxOmissions = 16

// LeftOut lists the omissions of one request, each of them once. The zero value is ready.
type LeftOut struct {
	names [maxOmissions]Omission
	n     int
}

// Add lists an omission.
func (l *LeftOut) Add(name Omission) {
	if l.n < maxOmissions && !slices.Contains(l.All(), name) {
		l.names[l.n] = name
		l.n++
	}
}

// All are the omissions in the order in which they were found.
func (l *LeftOut) All() []Omission { return l.names[:l.n] }

// String is the list as a header has it.
func (l *LeftOut) String() string {
	var b strings.Builder
	for i, name := range l.All() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}

// Abridged is a Form whose chat body can lack a part of its client's request. LeftOut
// holds for targets that do not speak the form.
type Abridged interface{ LeftOut() *LeftOut }
