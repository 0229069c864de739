// Package jsontext writes JSON by appending it, and walks JSON that an upstream has
// sent where it stands. Nothing allocates but the buffer that is appended to.
//
// Walks are lenient: they judge nothing that they skip. Requests of clients, and answers
// that several parsers read, are read by proxy/scan. Everything else may use gjson.
// The package does not know the meaning of the JSON.
package jsontext
