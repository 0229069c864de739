package jail

import (
	"encoding/binary"
	"errors"
	"io"
)

// Bounds on the messages that one side accepts of the other.
const (
	maxJob  = 64
	maxWord = 4 << 10
	maxCode = 64
	maxText = 1 << 10
	// maxIn is the largest input of a job: beyond every accepted upload.
	maxIn = 256 << 20
	// requestHead and replyHead are the lengths of a frame's header.
	requestHead = 8
	replyHead   = 6
)

// status begins a reply.
type status uint8

const (
	ready    status = iota + 1 // the jail is closed; the child waits for its first job
	done                       // the job's output follows
	refused                    // a Refusal follows: code and text
	panicked                   // the value of the job's panic follows; the child ends
	outsized                   // the output is larger than the parent takes
	idle                       // the child has cleaned up after a job
	part                       // a piece of the output follows, and then another reply
)

func (s status) carriesOutput() bool { return s == done || s == part }

var errFrame = errors.New("jail: broken frame")

// writeRequest sends a job's name, its parameter and its bytes. The bytes are not
// copied.
func writeRequest(w io.Writer, job, word string, in []byte) error {
	if len(job) > maxJob || len(word) > maxWord || len(in) > maxIn {
		return errFrame
	}
	head := make([]byte, requestHead, requestHead+len(job)+len(word))
	binary.LittleEndian.PutUint16(head, uint16(len(job)))
	binary.LittleEndian.PutUint16(head[2:], uint16(len(word)))
	binary.LittleEndian.PutUint32(head[4:], uint32(len(in)))
	head = append(append(head, job...), word...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(in)
	return err
}

func readRequest(r io.Reader) (job, word string, in []byte, err error) {
	var head [requestHead]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return "", "", nil, err
	}
	n := int(binary.LittleEndian.Uint16(head[:]))
	m := int(binary.LittleEndian.Uint16(head[2:]))
	size := binary.LittleEndian.Uint32(head[4:])
	if n > maxJob || m > maxWord || size > maxIn {
		return "", "", nil, errFrame
	}
	names := make([]byte, n+m)
	if _, err = io.ReadFull(r, names); err != nil {
		return "", "", nil, err
	}
	in = make([]byte, size)
	_, err = io.ReadFull(r, in)
	return string(names[:n]), string(names[n:]), in, err
}

// writeReply sends the outcome of a job; code is empty but for a Refusal's.
func writeReply(w io.Writer, s status, code string, out []byte) error {
	code = code[:min(len(code), maxCode)]
	if !s.carriesOutput() {
		out = out[:min(len(out), maxText)]
	}
	head := make([]byte, replyHead, replyHead+len(code))
	head[0], head[1] = byte(s), byte(len(code))
	binary.LittleEndian.PutUint32(head[2:], uint32(len(out)))
	if _, err := w.Write(append(head, code...)); err != nil {
		return err
	}
	_, err := w.Write(out)
	return err
}

// readReply takes at most most bytes of output. A document may have taken a child over, so
// that no announced length is trusted beyond that.
func readReply(r io.Reader, most int) (s status, code string, out []byte, err error) {
	var head [replyHead]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, "", nil, err
	}
	s = status(head[0])
	n, size := int(head[1]), int64(binary.LittleEndian.Uint32(head[2:]))
	if !s.carriesOutput() {
		most = maxText
	}
	switch {
	case s < ready || s > part || n > maxCode:
		return 0, "", nil, errFrame
	case size > int64(most):
		return outsized, "", nil, nil
	}
	buf := make([]byte, n)
	if _, err = io.ReadFull(r, buf); err != nil {
		return 0, "", nil, err
	}
	out, err = readGrowing(r, int(size))
	return s, string(buf), out, err
}

// firstRead is the memory that is allocated before an announced length is trusted.
const firstRead = 1 << 20

func readGrowing(r io.Reader, size int) ([]byte, error) {
	first := make([]byte, min(size, firstRead))
	if _, err := io.ReadFull(r, first); err != nil || len(first) == size {
		return first, err
	}
	buf := make([]byte, size)
	copy(buf, first)
	_, err := io.ReadFull(r, buf[len(first):])
	return buf, err
}
