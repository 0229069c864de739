package chat

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"farebox/providers/chat/dialect"
	"farebox/proxy/scan"
	"farebox/routes"
)

// features are the features that the messages of a request use, for the capability gates.
type features struct {
	images, audios, videos, files int
	results                       int // images in results of tools
}

// Per-message caps of addendum 5.2.
const (
	maxMessageImages = 10
	maxMessageAudios = 5
	maxMessageVideos = 3
	maxMessageFiles  = 5
)

// checkMessages applies the rules that depend on a message's role and on a
// part's type (addendum 5.2). Results of tools may have images and files in a body that
// was made of another form's.
func checkMessages(v *routes.Validator, retold bool) (use features) {
	messages := v.Doc.TopIndex(dialect.ChatMessages)
	if messages < 0 {
		return use
	}
	fields := v.Doc.Fields
	for i := messages + 1; i < fields[messages].Next; i = fields[i].Next {
		if fields[i].Kind != scan.Object {
			continue
		}
		role, content := v.Text(i, dialect.MessageRole), v.Member(i, dialect.MessageContent)
		path := func(member string) string { return v.Doc.Path(i) + "." + member }
		switch string(role) {
		case "assistant":
			if content == nil && v.Member(i, dialect.MessageToolCalls) == nil {
				v.Wrong(path("content"), "an assistant message must have content or tool_calls.")
			}
		case "tool":
			if content == nil {
				v.Missing(path("content"), "string", "is required in a tool message.")
			}
			if v.Member(i, dialect.MessageToolCallID) == nil {
				v.Missing(path("tool_call_id"), "string", "is required in a tool message.")
			}
		default:
			if content == nil && role != nil {
				v.Missing(path("content"), "string or array", "is required.")
			}
		}
		if v.Member(i, dialect.MessageAudio) != nil {
			v.Wrong(path("audio"), "sound that is kept at a provider cannot be used; leave it out.")
		}
		if content == nil || content.Kind != scan.Array {
			continue
		}
		if content.Len == 0 {
			v.Add(routes.Issue{Code: "too_small", Path: path("content"), Minimum: "1",
				Message: path("content") + ": must have at least 1 part."})
		}
		checkParts(v, v.Doc.Member(i, dialect.MessageContent), role, retold, &use)
	}
	return use
}

func checkParts(v *routes.Validator, content int32, role []byte, retold bool, use *features) {
	fields := v.Doc.Fields
	part := v.Book.Root.Child(dialect.ChatMessages).Child(dialect.MessageContent)
	var own features
	for i := content + 1; i < fields[content].Next; i = fields[i].Next {
		if fields[i].Kind != scan.Object {
			continue
		}
		kind := v.Text(i, dialect.PartType)
		var need int
		switch string(kind) {
		case "text":
			need = dialect.PartText
		case "image_url":
			need = dialect.PartImage
			own.images++
		case "input_audio":
			need = dialect.PartAudio
			own.audios++
			at := v.Doc.Member(i, dialect.PartAudio)
			if at >= 0 && bytes.Contains(v.Text(at, dialect.AudioData), []byte("://")) {
				v.Wrong(v.Doc.Path(i)+".input_audio.data", "must be base64; links are not accepted for sound.")
			}
		case "video_url":
			need = dialect.PartVideo
			own.videos++
		case "file":
			need = dialect.PartFile
			own.files++
		case "refusal":
			need = dialect.PartRefusal
		default:
			continue // its type was refused already
		}
		path := v.Doc.Path(i)
		switch {
		case string(kind) == "text" || len(role) == 0:
		case string(kind) == "refusal":
			if string(role) != "assistant" {
				v.Wrong(path+".type", "refusal parts are allowed in an assistant message only.")
			}
		case retold && string(role) == "tool" && (need == dialect.PartImage || need == dialect.PartFile):
		case string(role) != "user":
			v.Wrong(path+".type", "only text parts are allowed in a "+string(role)+" message.")
		}
		if v.Member(i, need) == nil {
			v.Missing(path+"."+part.Name(need), v.Book.Rule(part, need).Kinds.String(),
				"is required in a part of type "+string(kind)+".")
		}
		const kept = "files that are kept at a provider cannot be used; send their data."
		if v.Member(i, dialect.PartFileID) != nil {
			v.Wrong(path+".file_id", kept)
		}
		if at := v.Doc.Member(i, dialect.PartFile); at >= 0 && v.Member(at, dialect.FileID) != nil {
			v.Wrong(path+".file.file_id", kept)
		}
	}
	for _, limit := range [...]struct {
		n, most int
		what    string
	}{{own.images, maxMessageImages, "images"}, {own.audios, maxMessageAudios, "audio parts"},
		{own.videos, maxMessageVideos, "videos"}, {own.files, maxMessageFiles, "files"}} {
		if limit.n > limit.most {
			most := strconv.Itoa(limit.most)
			path := v.Doc.Path(content)
			v.Add(routes.Issue{Code: "too_big", Path: path, Maximum: most,
				Message: path + ": must have at most " + most + " " + limit.what + ", has " + strconv.Itoa(limit.n) +
					"."})
		}
	}
	use.images += own.images
	if string(role) == "tool" {
		use.results += own.images
	}
	use.audios += own.audios
	use.videos += own.videos
	use.files += own.files
}

// checkLists checks the elements of arrays that the scan does not look into.
func checkLists(v *routes.Validator) {
	v.CheckElements(dialect.ChatStop)
	v.CheckElements(dialect.ChatStopTokenIDs)
	v.CheckElements(dialect.ChatInclude)
	v.CheckItems(dialect.ChatStop, "sequences")
	if tag := v.Text(-1, dialect.ChatAnonUserID); bytes.Contains(tag, []byte("||")) || bytes.ContainsFunc(tag,
		func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }) {
		v.Add(routes.Issue{Code: "invalid_string", Path: "anon_user_id",
			Message: "anon_user_id: must be of printable ASCII characters, without || and \\."})
	}
	checkChoices(v)
	fields := v.Doc.Fields
	if tools := v.Doc.TopIndex(dialect.ChatTools); tools >= 0 {
		for i := tools + 1; i < fields[tools].Next; i = fields[i].Next {
			if string(v.Text(i, dialect.ToolType)) == "function" && v.Member(i, dialect.ToolTarget) == nil {
				path := v.Doc.Path(i) + ".function"
				v.Missing(path, "object", "is required in a tool of type function.")
			}
		}
	}
}

// checkChoices refuses a tool choice or an answer format without the member that it names.
func checkChoices(v *routes.Validator) {
	missing := func(path, of string) {
		v.Missing(path, "object", "is required in "+of+".")
	}
	if i := v.Doc.TopIndex(dialect.ChatToolChoice); i >= 0 && string(v.Text(i, dialect.ChoiceType)) == "function" &&
		v.Member(i, dialect.ChoiceTarget) == nil {
		missing("tool_choice.function", "a tool_choice of type function")
	}
	i := v.Doc.TopIndex(dialect.ChatResponseFormat)
	if i < 0 || string(v.Text(i, dialect.FormatType)) != "json_schema" {
		return
	}
	holder := v.Member(i, dialect.FormatSchema)
	if holder == nil {
		missing("response_format.json_schema", "a response_format of type json_schema")
		return
	}
	if at := v.Doc.Member(i, dialect.FormatSchema); holder.Kind != scan.Object ||
		v.Member(at, dialect.SchemaSchema) != nil {
		return
	}
	// Some clients put the schema under json_schema itself (addendum, D7).
	direct := false
	gjson.Parse(routes.ViewString(holder.Raw(v.Body))).ForEach(func(key, _ gjson.Result) bool {
		direct = direct || key.Str != "name" && key.Str != "strict" && key.Str != "description" && key.Str != "schema"
		return !direct
	})
	if !direct {
		missing("response_format.json_schema.schema", "a response_format of type json_schema")
	}
}
