package config

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
)

//go:generate go test -run TestGeneratedFilesAreCurrent -generate .

//go:embed schema.json.gz
var schemaFile []byte

// Schema is the JSON Schema of a config file, for editors. It is made of the tags and
// comments of the fields (generate_test.go).
func Schema() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(schemaFile))
	if err != nil {
		return nil, fmt.Errorf("cannot read the schema of this build: %w", err)
	}
	return io.ReadAll(r)
}
