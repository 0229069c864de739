package rpc

const (
	// maxAnswerDepth bounds the nesting of an answer: a call trace has two
	// levels for each of the EVM's 1024 calls.
	maxAnswerDepth = 4096
	// keptID is the stored part of an answer's id: more than ids of ours have.
	keptID = 2 * idDigits
	// keptError is the part of an error object that is stored to be classified. Nodes
	// write code and message before the data.
	keptError = 2 << 10
)

// Answer is one answer within a node's response, by its offsets there.
type Answer struct {
	From, To     int64 // the object, from { to behind }
	IDFrom, IDTo int64 // the value of its id; IDFrom is 0 without one, IDTo until it has ended

	id, err span // in the judge's memory
	flags   uint16
}

const (
	answerResult   = 1 << iota // has a result that is not null
	answerNull                 // has a result that is null
	answerError                // has an error that is not null
	answerComplete             // ended with its brace

	answerIDSeen // has had the member; a second one is a different answer to every parser
	answerResultSeen
	answerErrorSeen
)

// Failed says that the node answered with an error.
func (a *Answer) Failed() bool { return a.flags&answerError != 0 }

// once notes a member and says that it is the first of its name.
func (a *Answer) once(seen uint16) bool {
	first := a.flags&seen == 0
	a.flags |= seen
	return first
}

// valid says that it has the required members: a result or an error.
func (a *Answer) valid() bool {
	return a.flags&answerComplete != 0 && a.flags&(answerResult|answerNull|answerError) != 0
}

// Judge reads a node's response as it streams, each byte once, in pieces of any
// size, and finds the answers in it. It checks the envelope by the whole grammar
// and everything below by brackets, strings and control bytes, so that an answer that
// breaks off or is garbled is detected. An answer whose members another
// parser may read differently is refused: a name that is written with an escape, or
// is one of ours in other case. The zero value is ready; Reset makes it so again.
type Judge struct {
	Answers []Answer
	// Array says that the response is an array of answers.
	Array bool

	at    int64 // offset in the response
	state judgeState
	text  textState
	depth int
	bits  [maxAnswerDepth / 64]uint64 // a bit for each open bracket: 1 is {
	keep  []byte                      // ids and errors

	key    [8]byte // of the current member; longer ones are not ours
	keyLen int
	member uint8
	value  span // of the stored part of the value, in keep
}

type judgeState uint8

const (
	wantRoot    judgeState = iota
	wantAnswer             // in the array, before an answer
	wantFirst              // in the array, before an answer or its end
	wantMember             // before a key
	wantMembers            // before a key or the object's end
	inKey                  // in its text
	wantColon              // behind it
	wantValue              // behind the colon
	inScalar               // in a number or word of the envelope
	inText                 // in a string of the envelope
	inDeep                 // within a container below the envelope
	inDeepText             // in a string there
	afterValue             // before , or }
	afterAnswer            // before , or ]
	judgeDone              // nothing but white space may follow
	judgeFailed
)

type textState uint8

const (
	textPlain   textState = iota
	textEscaped           // the next byte is escaped
)

const (
	otherMember uint8 = iota
	idMember
	resultMember
	errorMember
)

// Reset makes the judge ready for another response.
func (j *Judge) Reset() {
	answers, keep := j.Answers[:0], j.keep[:0]
	if cap(keep) > 64<<10 {
		keep = nil
	}
	// The bits are written before they are read.
	j.Answers, j.Array, j.at, j.state, j.text, j.depth, j.keep = answers, false, 0, wantRoot, textPlain, 0, keep
	j.keyLen, j.member, j.value = 0, 0, span{}
}

// Complete says that the response is one whole JSON document of answers.
func (j *Judge) Complete() bool { return j.state == judgeDone }

// Broken says that it cannot become one any more.
func (j *Judge) Broken() bool { return j.state == judgeFailed }

// Known says that the kind of the first answer is decided: a result or a certain
// error.
func (j *Judge) Known() bool {
	if len(j.Answers) == 0 {
		return false
	}
	a := &j.Answers[0]
	if a.flags&answerComplete != 0 || a.flags&answerResult != 0 {
		return true
	}
	return a.flags&answerError != 0 && (j.member != errorMember || int(a.err.to-a.err.from) >= keptError)
}

// ID is the id of an answer, as far as it was stored; valid until Reset.
func (j *Judge) ID(i int) []byte { return j.Answers[i].id.of(j.keep) }

// Error is the error of an answer, as far as it was stored; valid until Reset.
func (j *Judge) Error(i int) []byte { return j.Answers[i].err.of(j.keep) }

// Write reads the next piece. It reports whether the response may still be good.
func (j *Judge) Write(p []byte) bool {
	for i := 0; i < len(p); {
		switch j.state {
		case inDeep:
			i = j.deep(p, i)
			continue
		case inDeepText, inText:
			i = j.string(p, i)
			continue
		case inScalar:
			i = j.scalar(p, i)
			continue
		case inKey:
			i = j.inKey(p, i)
			continue
		}
		c := p[i]
		if c == ' ' || c == '\n' || c == '\r' || c == '\t' {
			i++
			continue
		}
		if !j.step(c, j.at+int64(i)) {
			j.state = judgeFailed
			return false
		}
		if j.state != inScalar { // whose first byte is read again
			i++
		}
	}
	if j.state == judgeFailed {
		return false
	}
	j.at += int64(len(p))
	return true
}

// step takes a byte of the envelope that is not white space.
func (j *Judge) step(c byte, at int64) bool {
	switch j.state {
	case wantRoot:
		if c == '[' {
			j.Array, j.state = true, wantFirst
			return true
		}
		return j.begin(c, at)
	case wantFirst:
		if c == ']' {
			j.state = judgeDone
			return true
		}
		return j.begin(c, at)
	case wantAnswer:
		return j.begin(c, at)
	case wantMembers, wantMember:
		if c == '}' && j.state == wantMembers {
			return j.end(at)
		}
		j.state, j.keyLen = inKey, 0
		return c == '"'
	case wantColon:
		j.state = wantValue
		return c == ':' && j.nameMember()
	case wantValue:
		return j.beginValue(c, at)
	case afterValue:
		if c == ',' {
			j.state = wantMember
			return true
		}
		return c == '}' && j.end(at)
	case afterAnswer:
		if c == ',' {
			j.state = wantAnswer
			return true
		}
		j.state = judgeDone
		return c == ']'
	}
	return false
}

func (j *Judge) begin(c byte, at int64) bool {
	if c != '{' {
		return false
	}
	if len(j.Answers) >= maxAnswers {
		return false
	}
	j.Answers = append(j.Answers, Answer{From: at})
	j.state = wantMembers
	return true
}

// maxAnswers bounds the answers stored of a node's response: extra ones are ignored anyway.
const maxAnswers = 4 * MaxBatch

func (j *Judge) end(at int64) bool {
	a := &j.Answers[len(j.Answers)-1]
	a.To = at + 1
	a.flags |= answerComplete
	j.state = judgeDone
	if j.Array {
		j.state = afterAnswer
	}
	return a.valid()
}

func (j *Judge) inKey(p []byte, i int) int {
	for ; i < len(p); i++ {
		c := p[i]
		if c == '"' {
			j.state = wantColon
			return i + 1
		}
		if c == '\\' || c < ' ' {
			j.state = judgeFailed
			return len(p)
		}
		if j.keyLen < len(j.key) {
			j.key[j.keyLen] = c
		}
		j.keyLen++
	}
	return i
}

// nameMember finds out which member follows; false: parsers differ in that.
func (j *Judge) nameMember() bool {
	j.member = otherMember
	if j.keyLen > len(j.key) {
		return true
	}
	key := j.key[:j.keyLen]
	for i, name := range answerMembers {
		if string(key) == name {
			j.member = idMember + uint8(i)
			return true
		}
		if len(key) == len(name) && foldASCII(key, name) {
			return false
		}
	}
	return true
}

var answerMembers = [...]string{"id", "result", "error"} // from idMember on

func (j *Judge) beginValue(c byte, at int64) bool {
	a := &j.Answers[len(j.Answers)-1]
	n := int32(len(j.keep))
	j.value = span{n, n}
	switch j.member {
	case idMember:
		if !a.once(answerIDSeen) {
			return false
		}
		a.IDFrom, a.id = at, j.value
	case resultMember:
		if !a.once(answerResultSeen) {
			return false
		}
		if c == 'n' {
			a.flags |= answerNull
		} else {
			a.flags |= answerResult
		}
	case errorMember:
		if !a.once(answerErrorSeen) {
			return false
		}
		a.err = j.value
		if c != 'n' {
			a.flags |= answerError
		}
	}
	switch c {
	case '{', '[':
		if j.member == idMember {
			return false
		}
		j.depth = 0
		j.push(c)
		j.state = inDeep
		j.note([]byte{c})
		return true
	case '"':
		j.state, j.text = inText, textPlain
		j.note([]byte{c})
		return true
	}
	j.state = inScalar
	return c == '-' || c == 't' || c == 'f' || c == 'n' || c-'0' <= 9
}

func (j *Judge) push(c byte) {
	if c == '{' {
		j.bits[j.depth>>6] |= 1 << (j.depth & 63)
	} else {
		j.bits[j.depth>>6] &^= 1 << (j.depth & 63)
	}
	j.depth++
}

// note stores the bytes of an id or an error.
func (j *Judge) note(p []byte) {
	var most int
	switch j.member {
	case idMember:
		most = keptID
	case errorMember:
		most = keptError
	default:
		return
	}
	a := &j.Answers[len(j.Answers)-1]
	if room := most - int(j.value.to-j.value.from); len(p) > room {
		p = p[:room]
	}
	j.keep = append(j.keep, p...)
	j.value.to = int32(len(j.keep))
	if j.member == idMember {
		a.id = j.value
	} else {
		a.err = j.value
	}
}

// endValue ends a value of the envelope; at is behind it.
func (j *Judge) endValue(at int64) {
	if j.member == idMember {
		j.Answers[len(j.Answers)-1].IDTo = at
	}
	j.member = otherMember
	j.state = afterValue
}
