package parse

import (
	"bytes"
	"errors"

	"farebox/providers/jail"
)

// Jobs are a child's jobs for documents; it must be warmed up with Warm.
func Jobs() jail.Jobs { return jail.Jobs{parseJob: readDocument, drawJob: draw} }

// reader makes text of a document of one format.
type reader func(s *sink, doc []byte) error

// readDocument detects the format of a document and reads it. It answers in pieces
// ([sink.piece]).
func readDocument(doc []byte, _ string) ([]byte, error) {
	if len(bytes.TrimSpace(doc)) == 0 {
		return nil, refuse(Empty)
	}
	kind, read, err := readerOf(doc)
	if err != nil {
		return nil, err
	}
	s := &sink{none: NoText, kind: kind, send: jail.Send}
	return s.end(safely(func() error { return read(s, doc) }))
}

func readerOf(doc []byte) (Kind, reader, error) {
	switch familyOf(doc) {
	case looksPDF:
		return PDF, readPDF, nil
	case looksZip:
		a, err := openArchive(doc)
		if err != nil {
			return 0, nil, err
		}
		kind, read := a.reader()
		if read == nil {
			return 0, nil, refuse(Unsupported)
		}
		return kind, func(s *sink, _ []byte) error { return read(s, a) }, nil
	case looksCompound:
		return XLS, readCompound, nil
	case looksPlain:
		return Plain, readPlain, nil
	}
	return 0, nil, refuse(Unsupported)
}

// safely makes one refusal of all that goes wrong in a reader: neither the errors of
// libraries for damaged files help anybody, nor their panics.
func safely(read func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = refuse(Broken)
		}
	}()
	err = read()
	var said *jail.Refusal
	if err != nil && !errors.As(err, &said) {
		err = refuse(Broken)
	}
	return err
}
