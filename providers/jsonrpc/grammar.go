package jsonrpc

import (
	"encoding/binary"
	"math/bits"
)

// why a value is refused.
type why uint8

const (
	fine why = iota
	broken
	tooDeep
)

// skipStrict goes over one value by the whole grammar of RFC 8259, without
// recursion: what it lets pass every node's parser reads alike.
func skipStrict(body []byte, i, depth int) (int, why) {
	var objects [MaxDepth / 64]uint64
	var object bool
	open := 0
value:
	switch c := body[i]; c {
	case '{', '[':
		if depth+open >= MaxDepth {
			return i, tooDeep
		}
		if c == '{' {
			objects[open>>6] |= 1 << (open & 63)
		} else {
			objects[open>>6] &^= 1 << (open & 63)
		}
		open++
		if i = skipSpace(body, i+1); i == len(body) {
			return i, broken
		}
		if body[i] == c+2 { // } is { + 2, ] is [ + 2
			i++
			open--
			break
		}
		if c == '{' {
			goto key
		}
		goto value
	case '"':
		if i = skipString(body, i+1); i < 0 {
			return -i, broken
		}
	case 't':
		if i = skipWord(body, i, "true"); i < 0 {
			return -i, broken
		}
	case 'f':
		if i = skipWord(body, i, "false"); i < 0 {
			return -i, broken
		}
	case 'n':
		if i = skipWord(body, i, "null"); i < 0 {
			return -i, broken
		}
	default:
		if i = skipNumber(body, i); i < 0 {
			return -i, broken
		}
	}
after:
	if open == 0 {
		return i, fine
	}
	if i = skipSpace(body, i); i == len(body) {
		return i, broken
	}
	object = objects[(open-1)>>6]&(1<<((open-1)&63)) != 0
	switch c := body[i]; {
	case c == ',':
		if i = skipSpace(body, i+1); i == len(body) {
			return i, broken
		}
		if !object {
			goto value
		}
	case c == '}' && object, c == ']' && !object:
		i++
		open--
		goto after
	default:
		return i, broken
	}
key:
	if body[i] != '"' {
		return i, broken
	}
	if i = skipString(body, i+1); i < 0 {
		return -i, broken
	}
	if i = skipSpace(body, i); i == len(body) || body[i] != ':' {
		return i, broken
	}
	if i = skipSpace(body, i+1); i == len(body) {
		return i, broken
	}
	goto value
}

// skipString gives the offset behind the closing quote of a string whose text
// begins at i; -offset of what is wrong.
func skipString(body []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x8080808080808080
	)
	for {
		for i+8 <= len(body) {
			x := binary.LittleEndian.Uint64(body[i:])
			q, s := x^ones*'"', x^ones*'\\'
			// Bytes above 0x7f show neither: they are UTF-8, which was checked.
			m := ((x - ones*' ') | (q - ones) | (s - ones)) &^ x & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(body) && body[i] != '"' && body[i] != '\\' && body[i] >= ' ' {
			i++
		}
		if i == len(body) || body[i] < ' ' {
			return -i
		}
		if body[i] == '"' {
			return i + 1
		}
		if i+1 == len(body) {
			return -(i + 1)
		}
		switch body[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(body) {
				return -len(body)
			}
			for _, h := range body[i+2 : i+6] {
				if h-'0' > 9 && (h|0x20)-'a' > 5 {
					return -(i + 2)
				}
			}
			i += 6
		default:
			return -(i + 1)
		}
	}
}

func skipWord(body []byte, i int, word string) int {
	if len(body)-i < len(word) {
		return -len(body)
	}
	if string(body[i:i+len(word)]) != word {
		return -i
	}
	return i + len(word)
}

func skipNumber(body []byte, i int) int {
	at := i
	if body[i] == '-' {
		i++
	}
	from := i
	i = skipDigits(body, i)
	if i == from || body[from] == '0' && i > from+1 {
		return -max(at, 1)
	}
	if i < len(body) && body[i] == '.' {
		if from, i = i+1, skipDigits(body, i+1); i == from {
			return -i
		}
	}
	if i < len(body) && body[i]|0x20 == 'e' {
		i++
		if i < len(body) && (body[i] == '+' || body[i] == '-') {
			i++
		}
		if from, i = i, skipDigits(body, i); i == from {
			return -i
		}
	}
	return i
}

func skipDigits(body []byte, i int) int {
	for i < len(body) && body[i]-'0' <= 9 {
		i++
	}
	return i
}

func skipSpace(body []byte, i int) int {
	for i < len(body) && body[i] <= ' ' && (body[i] == ' ' || body[i] == '\n' || body[i] == '\r' || body[i] == '\t') {
		i++
	}
	return i
}
