// Package spec carries out the specification. Each row of the YAML tables is a promise of
// interface.md or its addendum, as a sentence or a table cell, with a request that shows it
// and the answer of the real binary.
//
// A row that says differs holds where farebox differs on purpose; routes/DIFFERENCES.md is
// made of these rows (go generate -C tests ./spec). A row that says wrong asserts today's
// behaviour, which has to change. A row that says silent is a promise of ours where the
// specification leaves it open.
package spec

//go:generate go test -tags nodynamic -run TestSpecification -generate .
