// Package spec carries out the specification: each row of the YAML tables is a sentence or a
// table cell of interface.md or its addendum that promises something, with the request that
// shows it and the answer that the real binary gives.
//
// A row that says differs holds where farebox differs on purpose; routes/DIFFERENCES.md is
// made of these rows (go generate -C tests ./spec). A row that says wrong asserts what happens
// now and has to change. A row that says silent is a promise of ours where the specification
// leaves it open.
package spec

//go:generate go test -tags nodynamic -run TestSpecification -generate .
