package dialect

import (
	"fmt"

	"farebox/proxy/scan"
)

// Reread scans a body for an upstream as strictly as the bodies of clients. Each
// object in it must have members that the Shape names only, each once: an upstream's
// parser could take another one of two than the priced one.
func (s *Scratch) Reread(written []byte, shape *scan.Shape) error {
	err := s.Doc.SkimStrict(written, shape)
	if e, ok := err.(*scan.Error); ok && (e.Reason == scan.TooMany || e.Reason == scan.TooDeep) {
		return &Unsupported{Path: "messages", Text: "messages: have more parts, or deeper ones, than this model takes."}
	}
	if err != nil {
		return fmt.Errorf("the request for the upstream cannot be sent: %w", err)
	}
	if i, all := s.Doc.AllNamed(); !all {
		return fmt.Errorf("the request for the upstream cannot be sent: %q has an unknown member",
			s.Doc.Path(i))
	}
	return nil
}
