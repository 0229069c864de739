// Package tokens counts the tokens of a text as the models of OpenAI do: a text
// is split into words (split.go), and a word that is not a token itself is merged
// of its bytes, the pair of lowest rank first (merge.go). The vocabularies lie
// compressed in the binary, 1.2 MB instead of the 9 MB that they take as tables
// of a program, and are unpacked when first needed (vocabulary.go).
package tokens
