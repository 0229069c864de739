package video

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// form is a body about a video, checked as far as no model is needed for it. Mistakes
// are in its issues until the model is known.
type form struct {
	routes.Validator
	of *config.Video // of the model, once that is chosen
	id string        // of the model
}

// read reads a body by the rules of its endpoint.
func read(c *routes.Call) (*form, *routes.Error) {
	if e := c.ReadJSON(videoShape); e != nil {
		return nil, e
	}
	return newForm(c.Body, &c.Doc, c.Rules()), nil
}

// newForm checks a body that was scanned.
func newForm(body []byte, doc *scan.Document, book *routes.Rulebook) *form {
	f := &form{Validator: routes.Validator{Body: body, Doc: doc, Book: book}}
	f.CheckAll()
	for _, id := range []int{videoPrompt, videoNegative} {
		if r := book.Rule(videoShape, id); r != nil {
			f.checkText(id, r.Characters, "")
		}
	}
	for _, id := range []int{videoImages, videoVideos, videoSounds, videoDocuments, videoScenes} {
		if r := book.Rule(videoShape, id); r != nil {
			f.CheckElements(id)
		}
	}
	f.checkParts(videoElements, "frontal_image_url", "reference_image_urls", "video_url")
	f.checkParts(videoKeyframes, "image_url", "frame_index")
	if f.has(videoFactor) && !slices.Contains([]int64{1, 2, 4}, f.Integer(videoFactor)) {
		f.Wrong("upscale_factor", "must be 1, 2 or 4.")
	}
	return f
}

// checkParts refuses members of the objects of a list that they do not have, and
// elements of their own lists that are not links.
func (f *form) checkParts(id int, names ...string) {
	n := 0
	f.list(id).ForEach(func(_, part gjson.Result) bool {
		path := videoShape.Name(id) + "." + strconv.Itoa(n)
		n++
		part.ForEach(func(key, value gjson.Result) bool {
			if part.IsObject() && !slices.Contains(names, key.Str) {
				f.Stranger(path, key.Str)
			}
			if part.IsObject() && value.IsArray() {
				for i, link := range value.Array() {
					if link.Type != gjson.String || link.Str == "" {
						at := path + "." + key.Str + "." + strconv.Itoa(i)
						f.Add(routes.Issue{Code: "invalid_type", Path: at, Expected: "string",
							Message: at + ": expected a link as text."})
					}
				}
			}
			return len(f.Issues) < routes.MaxIssues
		})
		return len(f.Issues) < routes.MaxIssues
	})
}

// list is an array member; empty when it is absent.
func (f *form) list(id int) gjson.Result {
	field := f.Member(-1, id)
	if field == nil || field.Kind != scan.Array {
		return gjson.Result{}
	}
	return gjson.Parse(routes.ViewString(field.Raw(f.Body)))
}

// has says that a member is there and not null.
func (f *form) has(id int) bool { return f.Member(-1, id) != nil }

// words is a text member; empty when it is absent.
func (f *form) words(id int) string { return f.Words(-1, id) }

// checkText refuses a text that is too long or blank.
func (f *form) checkText(id, most int, of string) {
	name, text := videoShape.Name(id), f.words(id)
	if n := utf8.RuneCountInString(text); n > most {
		limit := strconv.Itoa(most)
		f.Add(routes.Issue{Code: "too_big", Path: name, Maximum: limit,
			Message: name + ": must have at most " + limit + " characters" + of + ", has " + strconv.Itoa(n) + "."})
	} else if id == videoPrompt && text != "" && strings.TrimSpace(text) == "" {
		f.Add(routes.Issue{Code: "too_small", Path: name, Minimum: "1", Message: name + ": must not be blank."})
	}
}

// choose finds the model that the body names.
func (f *form) choose(c *routes.Call) *routes.Error {
	name := []byte(f.words(videoModel))
	model, match := c.Catalog().Resolve(name, videoType)
	if e := c.UseModel(name, videoType, model, match, f.Issues); e != nil {
		return e
	}
	f.of, f.id = model.Config.Spec.(*config.Video), model.ID
	return nil
}

// unsupported refuses what the model does not take.
func (f *form) unsupported(id int, what string) *routes.Error {
	return routes.Unsupported(videoShape.Name(id), "Model "+f.id+" does not support "+what+".")
}

// oneOf is what the client chose of a list of the model; empty: it did not.
func (f *form) oneOf(id int, options []string, what string) (string, *routes.Error) {
	value := f.words(id)
	switch {
	case value == "":
		return "", nil
	case len(options) == 0:
		return "", f.unsupported(id, what)
	case slices.Contains(options, value):
		return value, nil
	}
	name := videoShape.Name(id)
	return "", routes.Invalid(routes.Issue{Code: "invalid_enum_value", Path: name, Received: value, Options: options,
		Message: name + ": model " + f.id + " takes one of " + strings.Join(options, ", ") + ", not " + value + "."})
}
