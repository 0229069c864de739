package jobs

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/config"
	"farebox/proxy/scan"
	"farebox/routes"
)

// videoForm is a body about a video, with its model.
type videoForm struct {
	*form
	model *config.Video
}

func videoOf(f *form) *videoForm { return &videoForm{form: f, model: f.spec.(*config.Video)} }

// checkVideo checks a body beyond the rules.
func checkVideo(f *form) {
	for _, id := range []int{videoPrompt, videoNegative} {
		if r := f.Book.Rule(videoShape, id); r != nil {
			f.checkText(id, r.Characters, id == videoNegative)
		}
	}
	for _, id := range []int{videoImages, videoVideos, videoSounds, videoDocuments, videoScenes} {
		if r := f.Book.Rule(videoShape, id); r != nil {
			f.CheckElements(id)
		}
	}
	f.checkParts(videoElements, "frontal_image_url", "reference_image_urls", "video_url")
	f.checkParts(videoKeyframes, "image_url", "frame_index")
	if f.has(videoFactor) && !slices.Contains([]int64{1, 2, 4}, f.Integer(videoFactor)) {
		f.Wrong("upscale_factor", "must be 1, 2 or 4.")
	}
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
				f.Unrecognized(path, key.Str)
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
