package gemini

import (
	"bytes"
	"net/url"
	"path"
	"strings"

	"farebox/providers/chat/dialect"
	"farebox/proxy/jsontext"
	"farebox/proxy/scan"
)

// content writes a user's content as parts.
func (r *request) content(m int32) {
	content := r.Doc.Member(m, dialect.MessageContent)
	if content < 0 {
		return
	}
	if r.Doc.Fields[content].Kind == scan.String {
		for _, raw := range r.Texts(m) {
			r.text(raw, nil)
		}
		return
	}
	if r.Doc.Fields[content].Kind != scan.Array {
		return
	}
	for p := content + 1; p < r.Doc.Fields[content].Next; p = r.Doc.Fields[p].Next {
		switch string(r.Text(r.Doc.Member(p, dialect.PartType))) {
		case "text", "refusal":
			if raw := r.PartText(p); raw != nil {
				r.text(raw, nil)
			}
		case "image_url":
			r.attach(r.Doc.Member(p, dialect.PartImage), "image")
		case "video_url":
			r.attach(r.Doc.Member(p, dialect.PartVideo), "video")
		case "file":
			r.attach(r.Doc.Member(p, dialect.PartFile), "file")
		case "input_audio":
			r.audio(r.Doc.Member(p, dialect.PartAudio))
		default:
			r.Fail(r.PathOf(p), "This model takes parts of text, images, audio, video and files only.")
		}
	}
}

// attach writes a data URL as inlineData and a link as fileData.
func (r *request) attach(carrier int32, kind string) {
	if carrier < 0 {
		return
	}
	// The URL or data is the first member of every carrier.
	link := r.Text(r.Doc.Member(carrier, dialect.LinkURL))
	if bytes.IndexByte(link, '\\') >= 0 {
		// Some encoders write \/ for the slashes of a URL and of base64.
		r.scratch = jsontext.AppendUnescaped(r.scratch[:0], link)
		link = r.scratch
	}
	at := func() string { return r.PathOf(carrier) }
	media, data, ok := dialect.DataURL(link)
	switch {
	case ok:
		media, known := mediaType(kind, string(media))
		if !known {
			r.Fail(at(), "%s", mediaTexts[kind])
			return
		}
		if !dialect.IsBase64(data) {
			r.Fail(at(), "The data of the data URL is not base64.")
			return
		}
		r.inline(media, data)
	case bytes.HasPrefix(link, []byte("data:")):
		r.Fail(at(), "A data URL must be base64.")
	default:
		r.link(at, string(link), kind)
	}
}

func (r *request) inline(media string, data []byte) {
	r.part()
	r.b = append(append(r.b, `{"inlineData":{"mimeType":"`...), media...)
	r.b = append(append(append(r.b, `","data":"`...), data...), `"}}`...)
}

// link writes a link for the model to follow. Its end must tell the type of the
// file. Google's own hosts are refused: there the model reads with the
// operator's rights, perhaps files of other customers.
func (r *request) link(at func() string, link, kind string) {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		r.Fail(at(), "This model takes data URLs and links that begin with https:// only.")
		return
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if under(host, "googleapis.com") || under(host, "google.com") || under(host, "googleusercontent.com") {
		r.Fail(at(), "This model follows no links to %s; send a data URL.", host)
		return
	}
	media := ""
	if kind != "video" || !under(host, "youtube.com") && host != "youtu.be" {
		known := false
		if media, known = linkTypes[strings.ToLower(path.Ext(u.Path))]; known {
			media, known = mediaType(kind, media)
		}
		if !known {
			r.Fail(at(), "This model follows links only where the path ends in the kind of file, such as .png or .pdf; "+
				"send a data URL.")
			return
		}
	}
	r.part()
	r.b = append(r.b, `{"fileData":{`...)
	if media != "" {
		r.b = append(append(append(r.b, `"mimeType":"`...), media...), `",`...)
	}
	r.b = append(jsontext.AppendString(append(r.b, `"fileUri":`...), link), "}}"...)
}

func under(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// audio writes an input_audio part.
func (r *request) audio(carrier int32) {
	if carrier < 0 {
		return
	}
	data := r.Text(r.Doc.Member(carrier, dialect.AudioData))
	if bytes.IndexByte(data, '\\') >= 0 {
		r.scratch = jsontext.AppendUnescaped(r.scratch[:0], data)
		data = r.scratch
	}
	format := "wav"
	if text := r.Text(r.Doc.Member(carrier, dialect.AudioKind)); text != nil {
		format = string(text)
	}
	media, known := audioTypes[format]
	switch {
	case !known:
		r.Fail(r.PathOf(carrier)+".format", "This model takes audio of format wav, mp3, aiff, aac, ogg, flac and m4a only.")
	case !dialect.IsBase64(data):
		r.Fail(r.PathOf(carrier)+".data", "The data is not base64.")
	default:
		r.inline(media, data)
	}
}

var audioTypes = map[string]string{"wav": "audio/wav", "mp3": "audio/mp3", "aiff": "audio/aiff", "aac": "audio/aac",
	"ogg": "audio/ogg", "flac": "audio/flac", "m4a": "audio/m4a"}

var mediaTexts = map[string]string{
	"image": "This model takes images of type image/png, image/jpeg, image/webp, image/heic and image/heif only.",
	"video": "This model takes videos of type video/mp4, video/mpeg, video/quicktime, video/webm, video/x-flv, " +
		"video/wmv and video/3gpp only.",
	"file": "This model takes files of type application/pdf and text only.",
}

// mediaType is a media type as the dialect spells it, for parts of one kind.
func mediaType(kind, media string) (_ string, known bool) {
	media = strings.ToLower(media)
	if kind == "file" && (strings.HasPrefix(media, "text/") || media == "application/json") {
		return "text/plain", true // of texts that is the one type that all models take
	}
	if as, ok := sameTypes[media]; ok {
		media = as
	}
	return media, strings.Contains(mediaKinds[kind], " "+media+" ")
}

var sameTypes = map[string]string{"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "video/mov": "video/quicktime",
	"video/mpg": "video/mpeg", "video/x-ms-wmv": "video/wmv", "video/3gp": "video/3gpp", "video/flv": "video/x-flv"}

var mediaKinds = map[string]string{
	"image": " image/png image/jpeg image/webp image/heic image/heif ",
	"video": " video/mp4 video/mpeg video/quicktime video/webm video/x-flv video/wmv video/3gpp ",
	"file":  " application/pdf ",
}

// linkTypes are media types by the end of a link's path.
var linkTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".heic": "image/heic",
	".heif": "image/heif",
	".mp4":  "video/mp4", ".mpeg": "video/mpeg", ".mpg": "video/mpeg", ".mov": "video/quicktime", ".webm": "video/webm",
	".flv": "video/x-flv", ".wmv": "video/wmv", ".3gp": "video/3gpp",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/plain", ".csv": "text/plain", ".json": "text/plain",
	".html": "text/plain",
}
