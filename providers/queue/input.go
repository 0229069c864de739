package queue

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"farebox/providers/chat/dialect"
)

// Names are the names of an order's fields in an upstream's apps. Each app has an input of
// its own, so a target's options may name them anew:
//
//	options:
//	  lyrics: lyrics_prompt       # the field is called so
//	  seconds: music_length_ms:ms # …and is written in milliseconds
//	  duration: duration:unit     # as 5s
//	  format: audio_setting.format # in an object
//	  loop: ""                    # it is not sent; the order stays as it is
//	  extra: '{"steps": 50}'      # further members of the input
//	  output: audio.url           # where the output has the result
//
// A name may have the form of its value behind a colon: number, text (digits as a
// string), unit (5s), or ms (milliseconds as a number), for seconds and duration; list,
// for links of which the app takes several.
//
// A field without a name cannot be ordered at the target.
type Names map[string]string

// ExtraOption and OutputOption are the options beside the names of fields.
const (
	ExtraOption  = "extra"
	OutputOption = "output"
)

// CommonNames are the most common names of fields in apps.
var CommonNames = Names{
	"prompt": "prompt", "negative_prompt": "negative_prompt",
	"lyrics": "lyrics", "lyrics_optimizer": "lyrics_optimizer", "seconds": "duration:number",
	"instrumental": "force_instrumental", "loop": "loop", "voice": "voice", "language": "language", "speed": "speed",
	"duration": "duration:text", "aspect_ratio": "aspect_ratio", "resolution": "resolution",
	"upscale_factor": "upscale_factor", "audio": "generate_audio", "image": "image_url",
	"end_image": "end_image_url", "footage": "video_url", "sound": "audio_url", "images": "reference_image_urls",
	"videos": "reference_video_urls", "sounds": "reference_audio_urls", "elements": "elements",
	// Fields without a common name must be named: format, bitrate_mode,
	// documents, scenes, keyframes, reference. Agreement is between customer and service.
	"consents": "", "format": "",
}

// name is the target's name of a field, its form, and whether the target has it at all.
func (n Names) name(field string, t *Target) (name, form string, known bool) {
	text, known := t.Options[field]
	if !known {
		text, known = n[field]
	}
	name, form, _ = strings.Cut(text, ":")
	return name, form, known
}

// fields are the fields that an order sets, by the names of options, which are those of its JSON.
func fields(o *Order) map[string]any {
	list := map[string]any{}
	row := reflect.ValueOf(o).Elem()
	for i := range row.NumField() {
		v := row.Field(i)
		if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
			continue
		}
		name, _, _ := strings.Cut(row.Type().Field(i).Tag.Get("json"), ",")
		list[name] = reflect.Indirect(v).Interface()
	}
	delete(list, "kind")
	if o.Seconds > 0 {
		list["seconds"] = strconv.FormatInt(o.Seconds, 10)
	}
	if len(o.Elements) > 0 {
		list["elements"] = elements(o.Elements)
	}
	if len(o.Keyframes) > 0 {
		list["keyframes"] = keyframes(o.Keyframes)
	}
	return list
}

func elements(list []Element) []any {
	var all []any
	for _, e := range list {
		one := map[string]any{}
		if e.Front != "" {
			one["frontal_image_url"] = e.Front
		}
		if len(e.Others) > 0 {
			one["reference_image_urls"] = e.Others
		}
		if e.Video != "" {
			one["video_url"] = e.Video
		}
		all = append(all, one)
	}
	return all
}

func keyframes(list []Frame) []any {
	var all []any
	for _, f := range list {
		all = append(all, map[string]any{"image_url": f.Image, "frame_index": f.Index})
	}
	return all
}

// Reach is the field of an order without a name at t; nil: all have one.
func (n Names) Reach(o *Order, t *Target) *dialect.Unsupported {
	said := fields(o)
	for _, field := range slices.Sorted(maps.Keys(said)) {
		name, form, known := n.name(field, t)
		if !known {
			return &dialect.Unsupported{Path: field, Text: "The model cannot be asked for " + field + "."}
		}
		if text, ok := said[field].(string); ok && name != "" && (field == "seconds" || field == "duration") {
			if _, err := length(text, form); err != nil {
				return &dialect.Unsupported{Path: field, Text: "The model cannot be asked for a " + field + " of " + text + "."}
			}
		}
	}
	return nil
}

// Input is an order in the form of t's app.
func (n Names) Input(o *Order, t *Target) map[string]any {
	in := map[string]any{}
	if extra := t.Options[ExtraOption]; extra != "" {
		_ = json.Unmarshal([]byte(extra), &in) // the config has checked it
	}
	for field, v := range fields(o) {
		name, form, known := n.name(field, t)
		if !known || name == "" {
			continue
		}
		switch text, isText := v.(string); {
		case isText && (field == "seconds" || field == "duration"):
			l, err := length(text, form)
			if err != nil {
				continue
			}
			v = l
		case isText && form == "list":
			v = []string{text}
		}
		put(in, name, v)
	}
	return in
}

// put sets a member, in objects where its name has dots.
func put(in map[string]any, name string, v any) {
	for {
		first, rest, nested := strings.Cut(name, ".")
		if !nested {
			in[name] = v
			return
		}
		inner, ok := in[first].(map[string]any)
		if !ok {
			inner = map[string]any{}
			in[first] = inner
		}
		in, name = inner, rest
	}
}

// errLength is a length that the form of the app's member cannot express.
var errLength = errors.New("no such length")

// length writes a length of time, which is in an order as 5, 5s, auto, -1 or 1 gen,
// as an app takes it.
func length(text, form string) (any, error) {
	if form == "raw" {
		return text, nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "s"), 10, 64)
	if err != nil {
		if form == "text" || form == "unit" {
			return strings.ToLower(text), nil
		}
		return nil, errLength
	}
	switch {
	case n < 0 && form == "text":
		return strconv.FormatInt(n, 10), nil
	case n < 0 && (form == "ms" || form == "unit"):
		return nil, errLength
	}
	switch form {
	case "text":
		return strconv.FormatInt(n, 10), nil
	case "unit":
		return strconv.FormatInt(n, 10) + "s", nil
	case "ms":
		return n * 1000, nil
	}
	return n, nil
}
