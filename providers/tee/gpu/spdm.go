package gpu

// measurements are a device's answer to GET_MEASUREMENTS of SPDM 1.1.
type measurements struct {
	nonce     [32]byte // of the request
	signed    []byte
	signature []byte // r ‖ s
}

// The layout of both messages.
const (
	spdm11           = 0x11
	getMeasurements  = 0xe0
	measurementsCode = 0x60
	requestBytes     = 37
	requestNonce     = 4
	recordLength     = 5 // three bytes, the lowest first
	answerHead       = 8
	nonceBytes       = 32
	pairBytes        = 96
)

// readMeasurements takes the two messages apart. Nothing may follow.
func readMeasurements(raw []byte) (m measurements, err error) {
	if len(raw) < requestBytes+answerHead || raw[0] != spdm11 || raw[1] != getMeasurements {
		return m, errForm
	}
	copy(m.nonce[:], raw[requestNonce:])
	a := raw[requestBytes:]
	if a[0] != spdm11 || a[1] != measurementsCode {
		return m, errForm
	}
	end := answerHead + int(a[recordLength]) + int(a[recordLength+1])<<8 + int(a[recordLength+2])<<16 + nonceBytes
	if len(a) < end+2 {
		return m, errForm
	}
	end += 2 + int(a[end]) + int(a[end+1])<<8
	if len(a) != end+pairBytes {
		return m, errForm
	}
	m.signed, m.signature = raw[:requestBytes+end], a[end:]
	return m, nil
}
