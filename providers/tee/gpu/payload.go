package gpu

import (
	"errors"
	"fmt"

	"farebox/proxy/scan"
)

// Payload is the evidence of all processors of a domain.
type Payload struct {
	Nonce    string     `json:"nonce"`
	Arch     string     `json:"arch"`
	Evidence []Evidence `json:"evidence_list"`
}

// Evidence is that of one processor, as base64.
type Evidence struct {
	Certificate string `json:"certificate"` // a chain in PEM, the device first
	Evidence    string `json:"evidence"`    // the request and the answer of SPDM 1.1
	Arch        string `json:"arch"`
}

// Bounds of a payload.
const (
	maxPayload    = 2 << 20
	maxDevices    = 16
	maxChain      = 10       // certificates
	maxChainBytes = 64 << 10 // in PEM; real ones have six
	maxEvidence   = 64 << 10
	maxDepth      = 32
)

// The members read of a payload: each may be there once and in these letters, since clients
// and NVIDIA's service read it with parsers of their own.
var (
	deviceShape = scan.NewShape(scan.Members(nil, "certificate", "evidence", "arch")...)
	shape       = scan.NewShape(scan.Members(map[string]*scan.Shape{"evidence_list": deviceShape}, "nonce", "arch",
		"evidence_list")...)
	errPayload = errors.New("cannot read the evidence: it is not JSON of the known form")
)

// Read reads the member nvidia_payload, a text that is JSON again.
func Read(text []byte) (*Payload, error) {
	if len(text) > maxPayload {
		return nil, fmt.Errorf("cannot read the evidence: it has %d bytes; at most %d are read", len(text), maxPayload)
	}
	var doc scan.Document
	if doc.SkimWhole(text, shape, maxDepth) != nil {
		return nil, errPayload
	}
	list := doc.TopIndex(shape.ID("evidence_list"))
	if list < 0 || doc.Fields[list].Kind != scan.Array {
		return nil, errPayload
	}
	if n := doc.Fields[list].Len; n == 0 || n > maxDevices {
		return nil, fmt.Errorf("cannot read the evidence: it is of %d devices; 1 to %d are read", n, maxDevices)
	}
	p := &Payload{Evidence: make([]Evidence, 0, doc.Fields[list].Len)}
	top := func(name string) int32 { return doc.TopIndex(shape.ID(name)) }
	ok := readText(text, &doc, top("nonce"), &p.Nonce, false) && readText(text, &doc, top("arch"), &p.Arch, true)
	for i := list + 1; i < doc.Fields[list].Next; i = doc.Fields[i].Next {
		var e Evidence
		member := func(name string) int32 { return doc.Member(i, deviceShape.ID(name)) }
		ok = ok && doc.Fields[i].Kind == scan.Object && readText(text, &doc, member("certificate"), &e.Certificate, false) &&
			readText(text, &doc, member("evidence"), &e.Evidence, false) && readText(text, &doc, member("arch"), &e.Arch, true)
		p.Evidence = append(p.Evidence, e)
	}
	if !ok || len(p.Evidence) != int(doc.Fields[list].Len) {
		return nil, errPayload
	}
	return p, nil
}

// readText reads a text; some may be missing, or null.
func readText(text []byte, doc *scan.Document, at int32, into *string, missing bool) (ok bool) {
	if at < 0 || missing && doc.Fields[at].Kind == scan.Null {
		return missing
	}
	*into, ok = doc.Text(text, at)
	return ok
}
