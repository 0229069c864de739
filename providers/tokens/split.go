package tokens

import (
	"unicode"
	"unicode/utf8"
)

// Words of a vocabulary are the matches of its regular expression. They are
// matched by hand, alternative by alternative and in the same order:
//
//	cl100k_base: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	o200k_base:  [^\r\n\p{L}\p{N}]?U*W+(C)?|[^\r\n\p{L}\p{N}]?U+W*(C)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	             with U [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], W [\p{Ll}\p{Lm}\p{Lo}\p{M}], C as the first alternative of cl100k_base

// class is the set of groups that a character can be in, as bits.
type class uint8

const (
	letter class = 1 << iota
	number
	space
	newline // CR and LF, which are space, too
	upper   // U above
	lower   // W above
)

var ascii = func() (list [utf8.RuneSelf]class) {
	for c := range list {
		list[c] = classify(rune(c))
	}
	return list
}()

func classify(r rune) (c class) {
	switch {
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return letter | upper
	case unicode.Is(unicode.Ll, r):
		return letter | lower
	case unicode.In(r, unicode.Lm, unicode.Lo):
		return letter | upper | lower
	case unicode.Is(unicode.M, r):
		return upper | lower
	case unicode.Is(unicode.N, r):
		return number
	case r == '\r' || r == '\n':
		return space | newline
	case unicode.IsSpace(r):
		return space
	}
	return 0
}

// at is the class and the length of the character at i, 0 at the end.
func at(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classify(r), n
}

// run is where the characters from i on end that are of a class of any.
func run(s string, i int, any class) int {
	for {
		c, n := at(s, i)
		if n == 0 || c&any == 0 {
			return i
		}
		i += n
	}
}

// plainWord is the length of a word of lower-case ASCII letters, behind a space or not, 0
// where more than such letters has to be looked at. Most words of most texts are plain.
func plainWord(s string) int {
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	end := from
	for end < len(s) && s[end] >= 'a' && s[end] <= 'z' {
		end++
	}
	if end == from || end < len(s) && (s[end] >= utf8.RuneSelf || s[end] == '\'' || ascii[s[end]]&letter != 0) {
		return 0
	}
	return end
}

func cl100kWord(s string) int {
	if n := plainWord(s); n > 0 {
		return n
	}
	if n := contraction(s, 0); n > 0 {
		return n
	}
	c, first := at(s, 0)
	from := 0
	if c&(newline|letter|number) == 0 {
		from = first
	}
	if end := run(s, from, letter); end > from {
		return end
	}
	return otherWord(s, c, first, false)
}

func o200kWord(s string) int {
	if n := plainWord(s); n > 0 {
		return n
	}
	c, first := at(s, 0)
	starts := [2]int{first, 0}
	if c&(newline|letter|number) != 0 {
		starts[0] = 0
	}
	for _, from := range starts {
		if end := capitalised(s, from); end > 0 {
			return contraction(s, end)
		}
	}
	for _, from := range starts {
		if end := run(s, from, upper); end > from {
			return contraction(s, run(s, end, lower))
		}
	}
	return otherWord(s, c, first, true)
}

// capitalised is where U*W+ ends that begins at from, 0 if absent.
func capitalised(s string, from int) (end int) {
	i := from
	for {
		c, n := at(s, i)
		if n == 0 || c&upper == 0 {
			break
		}
		i += n
		if c&lower != 0 {
			end = i // where W+ ends if the capitals have to give back
		}
	}
	if all := run(s, i, lower); all > i {
		return all
	}
	return end
}

// contraction is where the end of an English short form at i ends; i if absent.
func contraction(s string, i int) int {
	if i >= len(s) || s[i] != '\'' {
		return i
	}
	rest := s[i+1:]
	for _, short := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
		if len(rest) >= len(short) && fold(rest[:len(short)]) == short {
			return i + 1 + len(short)
		}
	}
	if len(rest) >= 2 && rest[:2] == "ſ" { // folds to s
		return i + 3
	}
	return i
}

// fold is one of the short forms in lower case, or another text.
func fold(s string) string {
	switch s {
	case "S":
		return "s"
	case "T":
		return "t"
	case "RE", "Re", "rE":
		return "re"
	case "VE", "Ve", "vE":
		return "ve"
	case "M":
		return "m"
	case "LL", "Ll", "lL":
		return "ll"
	case "D":
		return "d"
	}
	return s
}

// otherWord is a word without letters, whose first character is of class c.
func otherWord(s string, c class, first int, slashes bool) int {
	if c&number != 0 {
		end := first
		for range 2 {
			c, n := at(s, end)
			if c&number == 0 {
				break
			}
			end += n
		}
		return end
	}
	from := 0
	if s[0] == ' ' {
		from = 1
	}
	if end := signs(s, from); end > from {
		for end < len(s) && (s[end] == '\r' || s[end] == '\n' || slashes && s[end] == '/') {
			end++
		}
		return end
	}
	// White space: up to its last line break, or all but the last character,
	// which belongs to the next word, or all of it.
	last, lines, i := 0, 0, 0
	for {
		c, n := at(s, i)
		if n == 0 || c&space == 0 {
			break
		}
		last = i
		i += n
		if c&newline != 0 {
			lines = i
		}
	}
	switch {
	case lines > 0:
		return lines
	case i < len(s) && last > 0:
		return last
	}
	return max(i, first)
}

// signs is where the characters from i on end that are neither letter, number nor
// space.
func signs(s string, i int) int {
	for {
		c, n := at(s, i)
		if n == 0 || c&(letter|number|space) != 0 {
			return i
		}
		i += n
	}
}
