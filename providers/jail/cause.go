package jail

import (
	"bytes"
	"strings"
)

// causes are the first words of a crash of the Go runtime or of this package.
var causes = []string{
	"panic: runtime error: index out of range",
	"panic: runtime error: slice bounds out of range",
	"panic: runtime error: invalid memory address or nil pointer dereference",
	"panic: runtime error: integer divide by zero",
	"panic: runtime error: makeslice: len out of range",
	"panic: runtime error: hash of unhashable type",
	"panic: runtime error:",
	"panic: interface conversion:",
	"panic: assignment to entry in nil map",
	"panic:",
	"runtime: goroutine stack exceeds",
	"runtime: out of memory",
	"runtime: cannot map pages",
	"runtime:",
	"fatal error: runtime: out of memory",
	"fatal error: runtime: cannot allocate memory",
	"fatal error: stack overflow",
	"fatal error:",
	"SIGSEGV:", "SIGBUS:", "SIGILL:", "SIGFPE:", "unexpected fault address",
	"jail: broken frame",
	"jail:",
}

// causeOf names why a child that had work died, by its last words. It is one of causes and
// never a quotation: the runtime puts the value of a panic behind such a beginning, which
// may be bytes of a document, and a child that was taken over may write anything.
func causeOf(said []byte) string {
	cause := "of something else"
	if len(said) == 0 {
		cause = "without a word"
	}
	longest := 0
	for _, c := range causes {
		if len(c) > longest && bytes.HasPrefix(said, []byte(c)) {
			cause, longest = strings.TrimSuffix(c, ":"), len(c)
		}
	}
	return cause
}
