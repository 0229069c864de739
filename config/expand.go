package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	maxSecretFile = 64 << 10 // one ${file:PATH}; a key or a prompt, not a data file
	maxExpanded   = 16 << 20 // all values of a config together
)

// expander replaces references in values:
//
//	${NAME}            the environment variable; it must be set and not empty
//	${NAME:-default}   the same, or the default
//	${file:PATH}       the content of a file without its last line break
//	$${                a literal ${
//
// Errors name the reference, never the value.
type expander struct {
	// literal leaves references as they are.
	literal bool
	env     func(string) (string, bool)
	total   int
}

var errExpanded = fmt.Errorf("the values of ${…} together are larger than %s", Size(maxExpanded))

// expand returns the text with its references replaced. It runs once: the text of a reference is
// not expanded again.
func (e *expander) expand(text string) (string, error) {
	if e.literal || !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			b.WriteString(text)
			break
		}
		if i > 0 && text[i-1] == '$' {
			b.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		b.WriteString(text[:i])
		end := strings.IndexByte(text[i:], '}')
		if end < 0 {
			return "", errors.New("${ is not closed; expected ${NAME}, ${NAME:-default} or ${file:PATH} ($${ for the " +
				"two characters themselves)")
		}
		value, err := e.reference(text[i+2 : i+end])
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		text = text[i+end+1:]
		if e.total += len(value); e.total > maxExpanded {
			return "", errExpanded
		}
	}
	return b.String(), nil
}

var foreignVariables = regexp.MustCompile(
	`^(?:\$|\$?env[.:/]|os\.environ/|\$?\{\{ ?(?:env\.|\.Env\.)?|%)([A-Z][A-Z0-9_]*)(?: ?\}\}|%)?$`)

// foreignVariable is the name of the environment variable that a text means in a shell or in
// the config of another gateway; empty: it means none.
func foreignVariable(text string) string {
	if m := foreignVariables.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// reference is the value of a reference without its ${ and }.
func (e *expander) reference(ref string) (string, error) {
	if path, ok := strings.CutPrefix(ref, "file:"); ok {
		return secretFile(path)
	}
	name, fallback, optional := strings.Cut(ref, ":-")
	if !isEnvName(name) {
		return "", fmt.Errorf("${%s} is not a reference; expected ${NAME}, ${NAME:-default} or ${file:PATH}",
			clip(name))
	}
	value, ok := e.env(name)
	switch {
	case ok && value != "":
	case optional:
		return fallback, nil
	case ok:
		return "", fmt.Errorf("environment variable %s is empty; set it, or write ${%s:-} if it may be empty",
			clip(name), clip(name))
	default:
		return "", fmt.Errorf("environment variable %s is not set; set it, or write ${%s:-default}", clip(name),
			clip(name))
	}
	if err := checkExpanded(value); err != nil {
		return "", fmt.Errorf("environment variable %s %w", clip(name), err)
	}
	return value, nil
}

// secretFile reads the file of a ${file:PATH}.
func secretFile(path string) (string, error) {
	data, err := readRegular(path, maxSecretFile)
	if err != nil {
		return "", fmt.Errorf("cannot read ${file:%s}: %w", clip(path), err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("file %s is empty; write the value into it", clip(path))
	}
	if err := checkExpanded(text); err != nil {
		return "", fmt.Errorf("file %s %w", clip(path), err)
	}
	return text, nil
}

func checkExpanded(value string) error {
	if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return errors.New("is not UTF-8 text")
	}
	return nil
}

// readRegular reads a whole regular file of at most limit bytes. A pipe or a
// device would block a reload or never end.
func readRegular(path string, limit int64) ([]byte, error) {
	if path == "" {
		return nil, errors.New("the path is empty")
	}
	if strings.HasPrefix(path, "~/") {
		return nil, errHome
	}
	// Stat first: opening a pipe without a writer blocks.
	if info, err := os.Stat(path); err != nil {
		return nil, plainPathError(err)
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, plainPathError(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, plainPathError(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %s", Size(limit))
	}
	return data, nil
}

// errHome is about ~/, which a shell expands and a config file does not.
var errHome = errors.New("~ is not expanded here; write the whole path, or ${HOME}")

// plainPathError drops the operation and path, which the message has already.
func plainPathError(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func isEnvName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || (c|0x20 >= 'a' && c|0x20 <= 'z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
