package tdx

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Statuses of a platform, as Intel names them.
const (
	UpToDate           = "UpToDate"
	SWHardening        = "SWHardeningNeeded"
	Configuration      = "ConfigurationNeeded"
	ConfigurationAndSW = "ConfigurationAndSWHardeningNeeded"
	OutOfDate          = "OutOfDate"
	OutOfDateAndConfig = "OutOfDateConfigurationNeeded"
	Revoked            = "Revoked"
	maxAdvisories      = 256
	maxLevels          = 1024
	sgxComponents      = 16
	teeComponents      = 16
	moduleSVN          = 0 // in Body.TeeTCBSVN
	moduleVersion      = 1
	firstBesideModule  = 2
	qeMiscSelect       = 16 // offsets in the report of an enclave
	qeAttributes       = 48
	qeMRSigner         = 128
	qeISVProdID        = 256
	qeISVSVN           = 258
	qeReportData       = 320
	signatureBytesOfQE = 32
)

// Statuses are all that a policy may accept.
var Statuses = []string{UpToDate, SWHardening, Configuration, ConfigurationAndSW, OutOfDate, OutOfDateAndConfig}

// hexBytes are bytes that are in hexadecimal digits of either case.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// level is a state of patches and Intel's status of it.
type level struct {
	TCB struct {
		ISVSVN *int `json:"isvsvn"`
		SGX    []struct {
			SVN int `json:"svn"`
		} `json:"sgxtcbcomponents"`
		PCESVN int `json:"pcesvn"`
		TDX    []struct {
			SVN int `json:"svn"`
		} `json:"tdxtcbcomponents"`
	} `json:"tcb"`
	Status     string   `json:"tcbStatus"`
	Advisories []string `json:"advisoryIDs"`
}

// module is the TDX module that a domain may run under.
type module struct {
	ID             string   `json:"id"`
	MRSigner       hexBytes `json:"mrsigner"`
	Attributes     hexBytes `json:"attributes"`
	AttributesMask hexBytes `json:"attributesMask"`
	Levels         []level  `json:"tcbLevels"`
}

// tcbInfo is Intel's description of processors of one kind.
type tcbInfo struct {
	FMSPC   hexBytes `json:"fmspc"`
	PCEID   hexBytes `json:"pceId"`
	Module  module   `json:"tdxModule"`
	Modules []module `json:"tdxModuleIdentities"`
	Levels  []level  `json:"tcbLevels"`
}

// qeIdentity is Intel's description of its quoting enclave.
type qeIdentity struct {
	MiscSelect     hexBytes `json:"miscselect"`
	MiscSelectMask hexBytes `json:"miscselectMask"`
	Attributes     hexBytes `json:"attributes"`
	AttributesMask hexBytes `json:"attributesMask"`
	MRSigner       hexBytes `json:"mrsigner"`
	ISVProdID      int      `json:"isvprodid"`
	Levels         []level  `json:"tcbLevels"`
}

// standing is Intel's status of the level that something is at.
type standing struct {
	status     string
	advisories []string
}

var errNoLevel = errors.New("it reaches no level that Intel lists")

// platform is the common level of a processor and a TDX module.
func (t *tcbInfo) platform(p *processor, b *Body) (standing, error) {
	if string(t.FMSPC) != string(p.fmspc[:]) || string(t.PCEID) != string(p.pceID[:]) {
		return standing{}, errors.New("it is of another kind of processor")
	}
	from := 0
	if b.TeeTCBSVN[moduleVersion] > 0 {
		from = firstBesideModule
	}
	for i := range t.Levels[:min(len(t.Levels), maxLevels)] {
		l := &t.Levels[i]
		if len(l.TCB.SGX) != sgxComponents || len(l.TCB.TDX) != teeComponents || l.Status == "" {
			return standing{}, errors.New("a level of it is not complete")
		}
		if l.reached(p, b, from) {
			return standing{l.Status, l.Advisories}, nil
		}
	}
	return standing{}, errNoLevel
}

func (l *level) reached(p *processor, b *Body, from int) bool {
	for i := range l.TCB.SGX {
		if p.svn[i] < l.TCB.SGX[i].SVN {
			return false
		}
	}
	if p.pceSVN < l.TCB.PCESVN {
		return false
	}
	for i := from; i < teeComponents; i++ {
		if int(b.TeeTCBSVN[i]) < l.TCB.TDX[i].SVN {
			return false
		}
	}
	return true
}

// module is the level of the TDX module. Modules of version 0 have no levels of their
// own: the platform's levels alone decide.
func (t *tcbInfo) module(b *Body) (standing, error) {
	m, version := &t.Module, b.TeeTCBSVN[moduleVersion]
	if version > 0 {
		id := fmt.Sprintf("TDX_%02x", version)
		at := slices.IndexFunc(t.Modules, func(m module) bool { return equalFold(m.ID, id) })
		if at < 0 {
			return standing{}, errors.New("Intel does not list the TDX module " + id)
		}
		m = &t.Modules[at]
	}
	if string(m.MRSigner) != string(b.MRSignerSeam[:]) ||
		!masked(b.SeamAttributes[:], m.Attributes, m.AttributesMask) {
		return standing{}, errors.New("the TDX module is not Intel's")
	}
	if version == 0 {
		return standing{status: UpToDate}, nil
	}
	return at(m.Levels, int(b.TeeTCBSVN[moduleSVN]))
}

// at is the first level that a version reaches.
func at(levels []level, svn int) (standing, error) {
	for i := range levels[:min(len(levels), maxLevels)] {
		l := &levels[i]
		if l.TCB.ISVSVN == nil || l.Status == "" {
			return standing{}, errors.New("a level is not complete")
		}
		if svn >= *l.TCB.ISVSVN {
			return standing{l.Status, l.Advisories}, nil
		}
	}
	return standing{}, errNoLevel
}

// together is the status of a platform whose module and quoting enclave have theirs.
func together(platform, module, qe standing) standing {
	all := standing{status: platform.status}
	for _, s := range []standing{platform, module, qe} {
		for _, a := range s.advisories {
			if !slices.Contains(all.advisories, a) && len(all.advisories) < maxAdvisories {
				all.advisories = append(all.advisories, a)
			}
		}
	}
	all.status = worse(worse(platform.status, module.status), qe.status)
	return all
}

// The faults of a platform, and the statuses that name them: an outdated one needs more
// than hardening.
const (
	toHarden = 1 << iota
	toConfigure
	old
)

var faults = [...]string{0: UpToDate, toHarden: SWHardening, toConfigure: Configuration,
	toHarden | toConfigure: ConfigurationAndSW, old: OutOfDate, old | toHarden: OutOfDate,
	old | toConfigure: OutOfDateAndConfig, old | toHarden | toConfigure: OutOfDateAndConfig}

// worse is the status of two things together. An unknown one stays: it is named, and
// accepted only if a policy lists it.
func worse(a, b string) string {
	first, second := slices.Index(faults[:], a), slices.Index(faults[:], b)
	switch {
	case a == Revoked || b == Revoked:
		return Revoked
	case first < 0:
		return a
	case second < 0:
		return b
	}
	return faults[first|second]
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

// masked says whether two values agree where the mask has ones. All must be of one length,
// which is not 0.
func masked(got, want, mask []byte) bool {
	if len(got) == 0 || len(got) != len(want) || len(got) != len(mask) {
		return false
	}
	for i := range got {
		if got[i]&mask[i] != want[i]&mask[i] {
			return false
		}
	}
	return true
}
