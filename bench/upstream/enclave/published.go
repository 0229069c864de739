package enclave

import (
	"cmp"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// object is one of JSON.
type object = map[string]any

func (m *machine) crls(p Published) (pck, ca []*x509.Certificate) {
	if p.RevokePCK {
		pck = append(pck, m.pck.Certificate)
	}
	if p.RevokeCA {
		ca = append(ca, m.by.pckCA.Certificate)
	}
	return pck, ca
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// components are the levels of sixteen parts.
func components(svn int) (list []object) {
	for range 16 {
		list = append(list, object{"svn": svn})
	}
	return list
}

// tcbInfo says how up to date processors of this kind are: first the level that ours
// reaches, then an old one.
func (m *machine) tcbInfo(p Published) object {
	level := func(svn, pce, tee int, status string, advisories ...string) object {
		o := object{"tcb": object{"sgxtcbcomponents": components(svn), "pcesvn": pce, "tdxtcbcomponents": components(tee)},
			"tcbDate": stamp(p.At), "tcbStatus": status}
		if len(advisories) > 0 {
			o["advisoryIDs"] = advisories
		}
		return o
	}
	zero := func(n int) string { return strings.Repeat("00", n) }
	return object{
		"id": "TDX", "version": 3, "issueDate": stamp(p.At), "nextUpdate": stamp(p.Next),
		"fmspc": strings.ToUpper(hex.EncodeToString(m.of.fmspc[:])), "pceId": "0000", "tcbType": 0,
		"tcbEvaluationDataNumber": 1,
		"tdxModule":               object{"mrsigner": zero(48), "attributes": zero(8), "attributesMask": strings.Repeat("FF", 8)},
		"tdxModuleIdentities": []object{{
			"id": fmt.Sprintf("TDX_%02X", moduleVersion), "mrsigner": zero(48), "attributes": zero(8),
			"attributesMask": strings.Repeat("FF", 8),
			"tcbLevels": []object{
				{"tcb": object{"isvsvn": moduleSVN}, "tcbDate": stamp(p.At), "tcbStatus": cmp.Or(p.ModuleStatus, "UpToDate")},
				{"tcb": object{"isvsvn": 2}, "tcbDate": stamp(p.At), "tcbStatus": "OutOfDate", "advisoryIDs": []string{"TEST-SA-2"}},
			},
		}},
		"tcbLevels": []object{
			level(m.of.svn, m.of.pceSVN, teeSVN, cmp.Or(p.Status, "UpToDate")),
			level(1, 5, 1, "OutOfDate", "TEST-SA-1"),
		},
	}
}

func (m *machine) qeIdentity(p Published) object {
	return object{
		"id": "TD_QE", "version": 2, "issueDate": stamp(p.At), "nextUpdate": stamp(p.Next), "tcbEvaluationDataNumber": 1,
		"miscselect": "00000000", "miscselectMask": "FFFFFFFF", "attributes": "11" + strings.Repeat("00", 15),
		"attributesMask": "FBFFFFFFFFFFFFFF0000000000000000", "mrsigner": strings.ToUpper(hex.EncodeToString(qeSigner)),
		"isvprodid": qeProduct,
		"tcbLevels": []object{
			{"tcb": object{"isvsvn": qeSVN}, "tcbDate": stamp(p.At), "tcbStatus": cmp.Or(p.QEStatus, "UpToDate")},
			{"tcb": object{"isvsvn": 1}, "tcbDate": stamp(p.At), "tcbStatus": "OutOfDate"},
		},
	}
}
