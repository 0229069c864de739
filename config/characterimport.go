package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoCharacter is a character that a folder does not have.
var ErrNoCharacter = errors.New("there is no such character")

// found is a file of a character outside of the folder, with its picture.
type found struct {
	*Character
	text    []byte
	changed time.Time
}

// Import checks the file of a character and the picture beside it as the folder itself
// does, and puts copies of both into it, each at once. One that is there already is
// replaced only where that is wanted.
func (c *Characters) Import(file string, replace bool) (*Character, error) {
	one, err := c.find(file)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Directory, 0o755); err != nil {
		return nil, err
	}
	folder, err := c.quietly()
	if err != nil {
		return nil, err
	}
	target, set := one.Slug+".yaml", folder.Set()
	there := set.Find(one.Slug)
	switch {
	case there == nil && folder.files[target] != nil && !replace:
		return nil, fmt.Errorf("the file %s is there already, of another character; --replace puts this one in its place",
			target)
	case there != nil && !replace:
		return nil, fmt.Errorf("the character %s is there already, in %s; --replace puts this one in its place", one.Slug,
			shownName(there.File))
	case there == nil && len(set.List) == MaxCharacters:
		return nil, fmt.Errorf("the folder has %d characters, which is the most: remove one first", MaxCharacters)
	}
	if err := c.room(set, one); err != nil {
		return nil, err
	}
	// The picture first: a gateway that looks between the two has both or none of them.
	stale := folder.pictures(one.Slug)
	if there != nil {
		stale = append(stale, folder.pictures(slugOfFile(there.File))...)
		if there.File != target {
			stale = append(stale, there.File)
		}
	}
	if one.Picture != nil {
		name := one.Slug + one.Picture.End()
		if err := c.put(name, one.Picture.Data, time.Now()); err != nil {
			return nil, err
		}
		stale = slices.DeleteFunc(stale, func(old string) bool { return old == name })
	}
	if err := c.put(target, one.text, one.changed); err != nil {
		return nil, err
	}
	one.File = target
	return one.Character, c.drop(stale)
}

// room says that the pictures stay within the memory for them.
func (c *Characters) room(set *CharacterSet, one found) error {
	if one.Picture == nil {
		return nil
	}
	total := int64(len(one.Picture.Data))
	for _, other := range set.List {
		if other.Slug != one.Slug && other.Picture != nil {
			total += int64(len(other.Picture.Data))
		}
	}
	if total > int64(c.Memory) {
		return fmt.Errorf("all pictures together would exceed %s (characters.memory in the config): "+
			"raise that, or take a smaller picture", c.Memory)
	}
	return nil
}

// find reads the file to import. Its picture has the same name.
func (c *Characters) find(file string) (one found, err error) {
	name := filepath.Base(file)
	if !Importable(name) {
		return one, fmt.Errorf("%s is not a character file; expected its name to end in .yaml or .json",
			shownName(name))
	}
	from := *c
	from.Directory, from.files = filepath.Dir(file), nil
	dir, err := from.open()
	if err != nil {
		return one, err
	}
	defer func() { _ = dir.close() }()
	data, info, err := readBounded(dir, name, maxCharacterFile, nil)
	if err != nil {
		return one, fmt.Errorf("cannot read %s: %w", shownName(name), err)
	}
	if filepath.Ext(name) == ".json" {
		if data, err = yamlOf(data); err != nil {
			return one, fmt.Errorf("cannot read %s: %w", shownName(name), err)
		}
	}
	if one.Character, err = parseCharacter(name, data, info.ModTime(), c); err != nil {
		return one, err
	}
	one.text, one.changed = data, info.ModTime()
	base, pictures := strings.TrimSuffix(name, filepath.Ext(name)), 0
	for _, end := range slices.Sorted(maps.Keys(pictureEnds)) {
		data, _, err := readBounded(dir, base+end, int64(c.MaxPicture), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			one.Picture, err = newPicture(data)
		}
		if pictures++; err == nil && pictures > 1 {
			err = errors.New("the character has two pictures; expected one")
		}
		if err != nil {
			return one, fmt.Errorf("cannot use %s: %w", shownName(base+end), err)
		}
	}
	return one, nil
}

// Importable says that a file's name is one that characters may be imported from.
func Importable(name string) bool {
	character, _ := isCharacterFile(name)
	return character || filepath.Ext(name) == ".json" && !strings.HasPrefix(name, ".")
}

// yamlOf is JSON as YAML reads it, too: characters beyond ASCII stand as themselves,
// since YAML knows no escapes of two halves. Errors are reported without its text.
func yamlOf(data []byte) ([]byte, error) {
	var one map[string]any
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	if err := in.Decode(&one); err != nil || one == nil {
		return nil, fmt.Errorf("it is not a JSON object (read up to byte %d); expected members such as name, modelId "+
			"and prompt", in.InputOffset())
	}
	if in.More() {
		return nil, fmt.Errorf("the file continues after the JSON object, at byte %d; expected one character per file",
			in.InputOffset())
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err := to.Encode(one)
	return out.Bytes(), err
}

// quietly opens the folder for a command, which prints its own messages.
func (c *Characters) quietly() (*CharacterFolder, error) {
	f := OpenCharacters(c, func(string, error) {})
	if f.gone {
		_, err := os.ReadDir(c.Directory)
		if err == nil {
			err = errors.New("it has too many entries")
		}
		return nil, fmt.Errorf("cannot read the folder of the characters: %w; farebox character import makes it, and "+
			"--directory names another", err)
	}
	return f, nil
}

// Read gives the characters of the folder, for a command.
func (c *Characters) Read() (*CharacterSet, error) {
	f, err := c.quietly()
	if err != nil {
		return nil, err
	}
	return f.Set(), nil
}

// pictures are the files of pictures with a name before their end.
func (f *CharacterFolder) pictures(base string) (names []string) {
	for name := range f.files {
		if _, picture := isCharacterFile(name); picture && strings.TrimSuffix(name, filepath.Ext(name)) == base {
			names = append(names, name)
		}
	}
	return names
}

// put writes a file of the folder at once, as whole as it is, with its time.
func (c *Characters) put(name string, data []byte, changed time.Time) (err error) {
	f, err := os.CreateTemp(c.Directory, ".import-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Chtimes(f.Name(), changed, changed); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(c.Directory, name))
}

// drop removes files of the folder.
func (c *Characters) drop(names []string) error {
	var all error
	for _, name := range names {
		if err := os.Remove(filepath.Join(c.Directory, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// Remove takes a character and its picture out of the folder: by its slug, or by the name of its
// file where that is wrong. It gives the names of the removed files.
func (c *Characters) Remove(name string) (removed []string, err error) {
	f, err := c.quietly()
	if err != nil {
		return nil, err
	}
	file := name
	if one := f.Set().Find(name); one != nil {
		file = one.File
	} else if character, _ := isCharacterFile(name); !character || f.files[name] == nil {
		return nil, fmt.Errorf("cannot remove %s: %w", shownName(name), ErrNoCharacter)
	}
	removed = append([]string{file}, f.pictures(strings.TrimSuffix(file, filepath.Ext(file)))...)
	slices.Sort(removed[1:])
	return removed, c.drop(removed)
}
