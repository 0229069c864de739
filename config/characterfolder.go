package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// MaxCharacters is how many a folder may have.
	MaxCharacters = 2000
	// maxFolder is how many entries of a folder are looked at: a file and a picture
	// each, and as many of other people's.
	maxFolder = 4 * MaxCharacters
	// fresh is how young a file may be whose time of change says nothing yet: it may
	// change again within the same tick of the file system's clock.
	fresh = 2 * time.Second
)

// CharacterSet is all characters of a folder at one moment. It never changes.
type CharacterSet struct {
	List   []*Character // by slug
	bySlug map[string]*Character
	// Wrong are the mistakes of files that are not in effect, or only as they were
	// before, by their names.
	Wrong map[string]error
}

// Find gives a character; nil if absent.
func (s *CharacterSet) Find(slug string) *Character { return s.bySlug[slug] }

// CharacterFolder is a folder of characters that is read again when it changes. A file with
// mistakes is reported once; its last good content stays until it is mended or removed, and the
// others are not touched by it.
type CharacterFolder struct {
	bounds *Characters
	say    func(msg string, err error)
	set    atomic.Pointer[CharacterSet]

	mu    sync.Mutex // of one look at a time
	files map[string]*characterFile
	gone  bool // the folder could not be read at the last look
	watch *fileWatch
}

// characterFile is a file of the folder as it was read last.
type characterFile struct {
	size    int64
	sum     [sha256.Size]byte
	changed time.Time
	read    time.Time
	err     error
	good    *Character // of the last content that was good; without its picture
	picture *Picture
}

// OpenCharacters reads the folder. say gets news for the operator: msg with a nil error for good
// news. It is never called at the same time.
func OpenCharacters(c *Characters, say func(msg string, err error)) *CharacterFolder {
	f := &CharacterFolder{bounds: c, say: say, files: map[string]*characterFile{}}
	f.set.Store(&CharacterSet{})
	f.Look()
	return f
}

// Set is the set in effect.
func (f *CharacterFolder) Set() *CharacterSet { return f.set.Load() }

// Bounds are the settings that the folder was opened with.
func (f *CharacterFolder) Bounds() *Characters { return f.bounds }

// folderScan is a folder that is being looked at.
type folderScan struct {
	list  func(most int) ([]string, error)
	open  func(name string) (fs.File, error)
	close func() error
}

// open opens the folder. Files outside of it cannot be reached through it, whatever links are in
// it; those that stay within, as Kubernetes makes them, are followed.
func (c *Characters) open() (folderScan, error) {
	if c.files != nil {
		return folderScan{list: namesIn(c.files.Open), open: c.files.Open, close: func() error { return nil }}, nil
	}
	root, err := os.OpenRoot(c.Directory)
	if err != nil {
		return folderScan{}, err
	}
	// Without O_NONBLOCK a pipe in the folder would block for ever.
	open := func(name string) (fs.File, error) { return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) }
	return folderScan{list: namesIn(open), open: open, close: root.Close}, nil
}

func namesIn(open func(string) (fs.File, error)) func(most int) ([]string, error) {
	return func(most int) ([]string, error) {
		dir, err := open(".")
		if err != nil {
			return nil, err
		}
		defer func() { _ = dir.Close() }()
		all, ok := dir.(fs.ReadDirFile)
		if !ok {
			return nil, errors.New("it is not a folder")
		}
		list, err := all.ReadDir(most + 1)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if len(list) > most {
			return nil, fmt.Errorf("it has more than %d entries; expected a folder of its own, with a file and a "+
				"picture for each of at most %d characters", most, MaxCharacters)
		}
		names := make([]string, len(list))
		for i := range list {
			names[i] = list[i].Name()
		}
		slices.Sort(names)
		return names, nil
	}
}

// isCharacterFile says which files of a folder are read; the rest, hidden files among it, is not
// looked at.
func isCharacterFile(name string) (character, picture bool) {
	end := path.Ext(name)
	if strings.HasPrefix(name, ".") || end == name {
		return false, false
	}
	_, picture = pictureEnds[strings.ToLower(end)]
	return end == ".yaml" || end == ".yml", picture
}

// Look reads the files that have changed since the last time, and reports the result.
func (f *CharacterFolder) Look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, err := f.bounds.open()
	var names []string
	if err == nil {
		defer func() { _ = dir.close() }()
		names, err = dir.list(maxFolder)
	}
	if err != nil {
		if !f.gone {
			f.say("the folder of the characters cannot be read; the current ones stay", err)
		}
		f.gone = true
		return
	}
	before := f.set.Load()
	news, files := f.gone || before.bySlug == nil, map[string]*characterFile{}
	f.gone = false
	for _, name := range names {
		if character, picture := isCharacterFile(name); character || picture {
			var read bool
			files[name], read = f.read(dir, name, character)
			news = news || read
		}
	}
	for name := range f.files {
		news = news || files[name] == nil
	}
	f.files = files
	if !news {
		return
	}
	next := f.gather()
	f.set.Store(next)
	f.logChanges(before, next)
}

// read reads a file, unless it is as it was.
func (f *CharacterFolder) read(dir folderScan, name string, character bool) (file *characterFile, read bool) {
	old := f.files[name]
	most := f.bounds.MaxPicture
	if character {
		most = maxCharacterFile
	}
	data, info, err := readBounded(dir, name, int64(most), old)
	if err == nil && data == nil {
		return old, false
	}
	file = &characterFile{read: time.Now(), err: err}
	if err == nil {
		file.size, file.changed, file.sum = info.Size(), info.ModTime(), sha256.Sum256(data)
		if old != nil && old.sum == file.sum && old.changed.Equal(file.changed) {
			same := *old
			same.read = file.read
			return &same, false
		}
	}
	switch {
	case err != nil:
	case character:
		file.good, file.err = parseCharacter(name, data, file.changed, f.bounds)
	default:
		file.picture, file.err = newPicture(data)
	}
	if old == nil {
		return file, true
	}
	if file.good == nil {
		file.good = old.good
	}
	if file.picture == nil && file.err != nil {
		file.picture = old.picture
	}
	// A file that cannot be read is new each time; its error is not.
	return file, file.err == nil || old.err == nil || file.err.Error() != old.err.Error()
}

// readBounded reads an ordinary file of at most some bytes; nil without an error says
// that it is as it was.
func readBounded(dir folderScan, name string, most int64, old *characterFile) ([]byte, fs.FileInfo, error) {
	in, err := dir.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular():
		return nil, info, errors.New("it is not a regular file")
	case old != nil && old.size == info.Size() && old.changed.Equal(info.ModTime()) &&
		old.read.Sub(old.changed) > fresh:
		return nil, info, nil
	case info.Size() > most:
		return nil, info, fmt.Errorf("it has %d bytes; expected at most %s", info.Size(), Size(most))
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("it has more than %s", Size(most))
	}
	if data == nil {
		data = []byte{}
	}
	return data, info, err
}

// gather makes a set of the files.
func (f *CharacterFolder) gather() *CharacterSet {
	s := &CharacterSet{bySlug: map[string]*Character{}, Wrong: map[string]error{}}
	pictures := map[string][]string{} // by the name of the character's file without its end
	total := int64(0)
	names := slices.Sorted(maps.Keys(f.files))
	for _, name := range names {
		file := f.files[name]
		if file.err != nil {
			s.Wrong[name] = file.err
		}
		if file.picture != nil {
			base := strings.TrimSuffix(name, path.Ext(name))
			pictures[base] = append(pictures[base], name)
		}
	}
	for _, name := range names {
		file := f.files[name]
		if file.good == nil {
			continue
		}
		c := *file.good
		c.File = name
		if other := s.bySlug[c.Slug]; other != nil {
			s.Wrong[name] = fmt.Errorf("the character %s is in %s already; expected a slug: of its own", c.Slug, other.File)
			continue
		}
		if len(s.List) == MaxCharacters {
			s.Wrong[name] = fmt.Errorf("it is one more than the %d characters that a folder may have", MaxCharacters)
			continue
		}
		for i, picture := range pictures[strings.TrimSuffix(name, path.Ext(name))] {
			p := f.files[picture].picture
			switch {
			case i > 0:
				s.Wrong[picture] = fmt.Errorf("%s has the picture %s already; expected one", name,
					pictures[strings.TrimSuffix(name, path.Ext(name))][0])
			case total+int64(len(p.Data)) > int64(f.bounds.Memory):
				s.Wrong[picture] = fmt.Errorf("the pictures together are larger than %s (characters.memory in the "+
					"config), so that it is not served", f.bounds.Memory)
			default:
				total += int64(len(p.Data))
				c.Picture = p
			}
		}
		s.bySlug[c.Slug], s.List = &c, append(s.List, &c)
	}
	slices.SortFunc(s.List, func(a, b *Character) int { return strings.Compare(a.Slug, b.Slug) })
	return s
}

// shownName is the name of a file for messages: the author of the folder chooses it.
func shownName(name string) string {
	if plain := strconv.Quote(name); plain != `"`+name+`"` || len(name) > 100 {
		return quote(name)
	}
	return name
}

// logChanges logs the new mistakes, and the characters in effect.
func (f *CharacterFolder) logChanges(before, next *CharacterSet) {
	for _, name := range slices.Sorted(maps.Keys(next.Wrong)) {
		err := next.Wrong[name]
		if old := before.Wrong[name]; old != nil && old.Error() == err.Error() {
			continue
		}
		what := "it is left out"
		if file := f.files[name]; file.good != nil || file.picture != nil {
			what = "its previous version stays"
			if file.err == nil {
				what = "it is left out"
			}
		}
		f.say("the file "+shownName(name)+" of the characters is not good; "+what, err)
	}
	if len(next.List) > 0 || len(before.List) > 0 {
		msg := count(len(next.List), "character") + " in effect"
		if n := len(next.Wrong); n > 0 {
			msg += ", " + count(n, "file") + " wrong"
		}
		f.say(msg, nil)
	}
}
