// Package config turns the operator's file into one checked, immutable [Config].
//
// [Load] reads a YAML file and reports every mistake in it at once as [*Problems], each with its
// line, column, an excerpt and the expected value. [Watcher] reads the file again when it changed
// and hands the new value on; a bad file keeps the old value. [Demo] is the built-in config of a
// first run.
//
// The order inside: bytes (source.go) -> tree with positions (tree.go) ->
// struct (decode.go, scalar.go, expand.go) -> rules (tags.go, validate.go).
// Money is read as written text, never through a float.
//
// The tags of a field are its default, range, words and whether it needs a
// restart (tags.go); its comment is what operators read. `go generate` makes the
// JSON Schema, REFERENCE.md and the comments of examples/full.yaml of both.
//
// Each capability has a file with its keys and rules: chat.go,
// embedding.go, image.go, rpc.go. Models of a new type need a file with their
// [Spec] and a line in kinds (model.go) or JobKinds (jobs.go), upstreams of a new dialect a row in
// dialects (dialect.go).
//
// Out of scope: anything that acts on a config. Connections, catalogs,
// counters and prices of single requests belong to the rooms that own them;
// this package imports none of them.
package config
