package media

// ParseRange reads a Range header for a file of a size. ok is false where the header is to
// be ignored: other units, several ranges, or not a range at all (RFC 9110, 14.2). length
// is below 0 where no byte of the file is asked for: 416.
func ParseRange(header []byte, size int64) (from, length int64, ok bool) {
	const unit = "bytes="
	if len(header) <= len(unit) || len(header) > 64 || !equalFold(header[:len(unit)], unit) {
		return 0, 0, false
	}
	spec := trim(header[len(unit):])
	dash := -1
	for i, c := range spec {
		if c == '-' {
			dash = i
			break
		}
	}
	if dash < 0 {
		return 0, 0, false
	}
	first, last := trim(spec[:dash]), trim(spec[dash+1:])
	switch {
	case len(first) == 0: // the last bytes
		n, good := number(last)
		if !good {
			return 0, 0, false
		}
		if n = min(n, size); n == 0 {
			return 0, -1, true
		}
		return size - n, n, true
	case len(last) == 0:
		from, good := number(first)
		if !good {
			return 0, 0, false
		}
		if from >= size {
			return 0, -1, true
		}
		return from, size - from, true
	}
	from, good := number(first)
	to, also := number(last)
	if !good || !also || to < from {
		return 0, 0, false
	}
	if from >= size {
		return 0, -1, true
	}
	return from, min(to, size-1) - from + 1, true
}

// number reads digits alone; a number that does not fit is beyond every file.
func number(digits []byte) (n int64, ok bool) {
	const most = 1<<62 - 1
	if len(digits) == 0 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > most/10-9 {
			n = most
			continue
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

func equalFold(b []byte, lower string) bool {
	for i := range b {
		if b[i]|0x20 != lower[i] && b[i] != lower[i] {
			return false
		}
	}
	return true
}
