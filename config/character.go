package config

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Character is one file of the folder of characters. Its text is public, but for the prompt.
type Character struct {
	// Slug is the name in paths and requests. Default: that of the file.
	Slug        string   `yaml:"slug"`
	Name        string   `yaml:"name"`
	Description string   `yaml:"description"`
	Author      string   `yaml:"author"` // is never shown, but for a name that is made of it
	Adult       bool     `yaml:"adult"`
	Featured    bool     `yaml:"featured"`
	Pro         bool     `yaml:"pro"`
	WebEnabled  bool     `yaml:"webEnabled"`
	ModelID     string   `yaml:"modelId"` // advice to clients: the model of the request decides
	Tags        []string `yaml:"tags"`
	Categories  []string `yaml:"categories"`
	ShareURL    string   `yaml:"shareUrl"`
	// Prompt goes before the messages of a chat. No answer, error or log has it.
	Prompt Secret `yaml:"prompt"`
	// CreatedAt and UpdatedAt are when the file was changed, where nothing is written.
	CreatedAt time.Time `yaml:"createdAt"`
	UpdatedAt time.Time `yaml:"updatedAt"`

	ID      string   `yaml:"-"` // UUID, the same on all nodes
	File    string   `yaml:"-"` // in the folder
	Picture *Picture `yaml:"-"` // nil: none
}

// Bounds of a character's file.
const (
	maxCharacterFile = 1 << 20
	maxNameLength    = 100
	maxDescribed     = 4000
	maxLabels        = 20  // of each kind, as many as can be asked for (addendum 18.1)
	maxLabel         = 100 // characters of a tag or category
	maxModelID       = 200
	maxShareURL      = 2000
)

var slugForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`)

// ValidSlug says that a text can be the name of a character in paths.
func ValidSlug(s string) bool { return slugForm.MatchString(s) }

const slugExpected = "expected 1 to 64 lower-case letters, digits and -, the first and last a letter or digit"

// parseCharacter reads the file of a character. Mistakes in it are *Problems, which have no line
// of the file in them: any of it may be part of a prompt. References such as ${file:PATH} mean
// nothing here: the author of characters need not be the operator, and their text is public.
func parseCharacter(file string, data []byte, changed time.Time, bounds *Characters) (*Character, error) {
	if len(data) > maxCharacterFile {
		return nil, &Problems{File: shownName(file), List: []Problem{{File: shownName(file), Line: 1, Column: 1,
			Message: "the file is larger than " + Size(maxCharacterFile).String() + "; expected one character"}}}
	}
	c := &Character{File: file}
	src, r := newSource(shownName(file), data)
	if len(r.list) == 0 {
		root := parseTree(src, r)
		switch {
		case len(r.list) > 0 && root == nil:
		case root == nil || root.isNull():
			r.add(position{1, 1}, "", "the file is empty; expected at least name:, modelId: and prompt:")
		case root.kind != mappingNode:
			r.add(root.at(), "", "%s stands here; expected keys such as name: and prompt:", root.describe())
		default:
			d := newDecoder(r, nil)
			d.literal = true
			d.value("", root.at(), root, reflect.ValueOf(c).Elem())
			c.complete(changed)
			c.check(&validator{decoder: d}, bounds)
		}
	}
	if err := r.err(); err != nil {
		return nil, veil(err.(*Problems))
	}
	return c, nil
}

// complete sets the defaults of members that the file lacks.
func (c *Character) complete(changed time.Time) {
	if c.Slug == "" {
		c.Slug = slugOfFile(c.File)
	}
	if c.UpdatedAt.IsZero() {
		if c.UpdatedAt = changed.UTC(); c.UpdatedAt.Before(c.CreatedAt) {
			c.UpdatedAt = c.CreatedAt
		}
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = c.UpdatedAt
	}
	sum := sha256.Sum256([]byte("farebox character\x00" + c.Slug))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	c.ID = fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// check finds mistakes in a well-formed file.
func (c *Character) check(v *validator, bounds *Characters) {
	if !slugForm.MatchString(c.Slug) {
		if v.has("slug") {
			v.wrong("slug", "%s cannot be the name of a character in paths; %s", v.shown("slug"), slugExpected)
		} else {
			v.fail(position{1, 1}, "slug", "the name of the file cannot be that of a character in paths; expected slug: "+
				"with 1 to 64 lower-case letters, digits and -, or a file that is called so")
		}
	}
	needs := func(path, text, what string) {
		if strings.TrimSpace(text) == "" {
			v.wrong(path, "%s", "a character needs "+what)
		}
	}
	needs("name", c.Name, "a name; expected name: with 1 to 100 characters")
	needs("modelId", c.ModelID, "a model that suits it; expected modelId: with the id of one")
	needs("prompt", string(c.Prompt), "a prompt; expected prompt: | with its lines below, indented")
	v.line("name", c.Name, maxNameLength)
	v.line("author", c.Author, maxNameLength)
	v.line("modelId", c.ModelID, maxModelID)
	v.long("description", c.Description, maxDescribed)
	if len(c.Prompt) > int(bounds.MaxPrompt) {
		v.wrong("prompt", "the prompt has %d bytes; expected at most %s (characters.max_prompt in the config)",
			len(c.Prompt), bounds.MaxPrompt)
	}
	v.labels("tags", c.Tags)
	v.labels("categories", c.Categories)
	if c.ShareURL != "" {
		u, err := url.Parse(c.ShareURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
			len(c.ShareURL) > maxShareURL {
			v.wrong("shareUrl", "%s cannot be shown to clients as a link; expected an http:// or https:// address "+
				"without credentials", v.shown("shareUrl"))
		}
	}
	if v.has("updatedAt") && c.UpdatedAt.Before(c.CreatedAt) {
		v.wrong("updatedAt", "%s is before createdAt; expected the same or later", v.shown("updatedAt"))
	}
}

// line checks a text that is shown in one line.
func (v *validator) line(path, text string, most int) {
	if strings.ContainsFunc(text, unicode.IsControl) {
		v.wrong(path, "the text has a line break or another control character; expected one line")
	}
	v.long(path, text, most)
}

func (v *validator) long(path, text string, most int) {
	if n := utf8.RuneCountInString(text); n > most {
		v.wrong(path, "the text has %d characters; expected at most %d", n, most)
	}
}

// labels checks tags or categories, which must be such that they can be asked for.
func (v *validator) labels(path string, list []string) {
	if n := len(list); n > maxLabels {
		v.wrong(path, "%d are listed; expected at most %d", n, maxLabels)
		return
	}
	for i, label := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		same := func(other string) bool { return strings.EqualFold(other, label) }
		switch {
		case strings.TrimSpace(label) != label || label == "" || strings.ContainsAny(label, ",#") ||
			strings.ContainsFunc(label, unicode.IsControl):
			v.wrong(at, "%s cannot be asked for; expected a word or a few, without , or #, or space around it",
				v.shown(at))
		case slices.ContainsFunc(list[:i], same):
			v.wrong(at, "%s is listed already; expected every one once", v.shown(at))
		}
		v.long(at, label, maxLabel)
	}
}

// slugOfFile is the name of a file without its extension.
func slugOfFile(file string) string {
	return strings.TrimSuffix(file, path.Ext(file))
}

// characterKeys are those of a character's file.
var characterKeys = keysOf(reflect.ValueOf(Character{}))

var quotedText = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// veil removes possible text of a prompt from problems: all lines of the file, unknown keys, and
// the words of the YAML library.
func veil(p *Problems) *Problems {
	for i := range p.List {
		one := &p.List[i]
		one.Excerpt = ""
		top := one.Path
		if i := strings.IndexAny(top, ".["); i >= 0 {
			top = top[:i]
		}
		switch {
		case slices.Contains(characterKeys, top):
		case one.Path != "":
			one.Path = ""
			expected := "expected one of " + strings.Join(characterKeys, ", ")
			if _, near, found := strings.Cut(one.Message, "; did you mean "); found {
				expected = "did you mean " + near
			}
			one.Message = "characters do not have this key; " + expected
		case strings.HasPrefix(one.Message, "not valid YAML"), strings.HasPrefix(one.Message, "the file cannot be read"):
			one.Message = "not valid YAML; check indentation, brackets and quotes here and on the line above: " +
				"a prompt follows prompt: | on its own lines, all indented"
		case strings.HasPrefix(one.Message, "alias "):
			one.Message = "an alias is used before its anchor is complete; text that begins with * needs quotes"
		case strings.HasPrefix(one.Message, "tag "):
			one.Message = "tags are not used here; text that begins with ! needs quotes"
		default:
			one.Message = quotedText.ReplaceAllString(one.Message, "that stands here")
		}
	}
	return p
}
