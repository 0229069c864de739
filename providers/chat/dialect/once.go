package dialect

import (
	"bytes"
	"encoding/json"

	"farebox/proxy/scan"
)

// SkimLoose scans what an upstream says. Some servers write a member twice: the last one
// holds then, as with most readers of JSON, and what is returned is data written anew.
func SkimLoose(doc *scan.Document, data []byte, shape *scan.Shape) ([]byte, error) {
	err := doc.Skim(data, shape)
	if e, ok := err.(*scan.Error); !ok || e.Reason != scan.Duplicate {
		return data, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v map[string]any
	if d.Decode(&v) != nil {
		return data, err
	}
	once, failed := json.Marshal(v)
	if failed != nil {
		return data, err
	}
	return once, doc.Skim(once, shape)
}
