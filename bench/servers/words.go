package servers

import "unicode"

// words counts the words of a text.
func words(text string) map[string]int {
	n := map[string]int{}
	var word []rune
	flush := func() {
		if len(word) > 0 {
			n[string(word)]++
			word = word[:0]
		}
	}
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			word = append(word, r)
		} else {
			flush()
		}
	}
	flush()
	return n
}

// WordF1 is how far two texts have the same words, each as often, in any order. of is how
// many words want has.
func WordF1(got, want string) (f1 float64, of int) {
	a, b := words(got), words(want)
	same, all := 0, 0
	for w, n := range a {
		all += n
		same += min(n, b[w])
	}
	for _, n := range b {
		of += n
	}
	if all+of == 0 {
		return 1, 0
	}
	return 2 * float64(same) / float64(all+of), of
}
