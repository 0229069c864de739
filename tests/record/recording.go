package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// recording is the output of one binary: bytes as they came. Values that must differ
// between runs are taken out when recordings are compared (normal.go). A wrong rule can
// so be mended without recording again.
type recording struct {
	Start, End time.Time
	// Names are placeholders for a run's own addresses and directories.
	Names   map[string]string
	Entries []*entry `json:"-"`
}

// entry is one thing that was done, and all that was seen of it.
type entry struct {
	Name  string
	Parts []part
}

// part is one side of an entry: the request, the head and the body of the answer, the
// requests to upstreams, the line in the log.
type part struct {
	Name string
	Data []byte
}

func (e *entry) add(name string, data []byte) {
	e.Parts = append(e.Parts, part{name, data})
}

// write makes a file of JSON lines, compressed.
func (r *recording) write(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	enc := json.NewEncoder(z)
	if err := enc.Encode(r); err != nil {
		return err
	}
	for _, e := range r.Entries {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return z.Close()
}

func readRecording(path string) (*recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s is not a recording: %w", path, err)
	}
	dec := json.NewDecoder(z)
	r := &recording{}
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("%s is not a recording: %w", path, err)
	}
	for {
		e := &entry{}
		switch err := dec.Decode(e); {
		case err == io.EOF:
			return r, nil
		case err != nil:
			return nil, fmt.Errorf("cannot read %s to its end: %w", path, err)
		}
		r.Entries = append(r.Entries, e)
	}
}
