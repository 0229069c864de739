package gemini

import "farebox/proxy/scan"

// Members of an answer, whole or as an event of a stream.
var (
	callShape = scan.NewShape(scan.Members(nil, "id", "name", "args")...)
	dataShape = scan.NewShape(scan.Members(nil, "mimeType", "data")...)
	partShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"functionCall": callShape, "inlineData": dataShape},
		"text", "thought", "thoughtSignature", "functionCall", "inlineData", "executableCode", "codeExecutionResult")...)
	contentShape   = scan.NewShape(scan.Members(map[string]*scan.Shape{"parts": partShape}, "parts")...)
	candidateShape = scan.NewShape(scan.Members(map[string]*scan.Shape{"content": contentShape},
		"content", "finishReason", "index", "groundingMetadata", "citationMetadata", "logprobsResult")...)
	answerShape = scan.NewShape(scan.Members(map[string]*scan.Shape{
		"candidates": candidateShape, "promptFeedback": scan.NewShape(scan.Members(nil, "blockReason")...),
	}, "candidates", "usageMetadata", "promptFeedback", "responseId", "error")...)
)

// bodyShape has every member of a body written for an upstream.
var bodyShape = func() *scan.Shape {
	type below = map[string]*scan.Shape
	shape := func(in below, names ...string) *scan.Shape { return scan.NewShape(scan.Members(in, names...)...) }
	turn := shape(below{"parts": shape(below{
		"inlineData": dataShape, "fileData": shape(nil, "mimeType", "fileUri"), "functionCall": callShape,
		"functionResponse": shape(nil, "id", "name", "response"),
	}, "text", "thought", "thoughtSignature", "inlineData", "fileData", "functionCall", "functionResponse")}, "role", "parts")
	function := shape(nil, "name", "description", "parametersJsonSchema")
	return shape(below{
		"contents": turn, "systemInstruction": turn, "tools": shape(below{"functionDeclarations": function},
			"functionDeclarations"),
		"toolConfig": shape(below{"functionCallingConfig": shape(nil, "mode", "allowedFunctionNames")},
			"functionCallingConfig"),
		"generationConfig": shape(below{
			"thinkingConfig": shape(nil, "includeThoughts", "thinkingLevel", "thinkingBudget"),
		}, "maxOutputTokens", "candidateCount", "temperature", "topP", "topK", "presencePenalty", "frequencyPenalty",
			"seed", "stopSequences", "responseLogprobs", "logprobs", "responseMimeType", "responseJsonSchema",
			"thinkingConfig"),
	}, "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
}()

const (
	answerCandidates = iota
	answerUsage
	answerFeedback
	answerID
	answerError
)

const (
	candidateContent = iota
	candidateFinish
	candidateIndex
	candidateGrounding
	candidateCitations
	candidateLogprobs
)

const (
	partText = iota
	partThought
	partSignature
	partCall
	partData
	partCode
	partResult
)

const (
	callID = iota
	callName
	callArgs
)

// read is one scan of an answer or an event.
type read struct {
	doc  *scan.Document
	body []byte
}

// string is the raw content of a string field; nil if absent.
func (r *read) string(i int32) []byte { return r.doc.StringAt(r.body, i) }

func (r *read) raw(i int32) []byte { return r.doc.RawAt(r.body, i) }

// parts is the list of a candidate's parts; -1 if absent.
func (r *read) parts(candidate int32) int32 {
	content := r.doc.Member(candidate, candidateContent)
	if content < 0 || r.doc.Fields[content].Kind != scan.Object {
		return -1
	}
	list := r.doc.Member(content, 0)
	if list < 0 || r.doc.Fields[list].Kind != scan.Array {
		return -1
	}
	return list
}

// part is one part of a candidate's content.
type part struct {
	text      []byte // nil if absent
	signature []byte
	call      int32 // -1: none
	data      int32 // -1: none
	thought   bool
	at        int32
}

// unknown says that a part holds something that this package has no word for. It
// was produced, too.
func (p *part) unknown() bool { return p.text == nil && p.call < 0 && p.data < 0 }

func (r *read) part(i int32) part {
	p := part{
		at:   i,
		text: r.string(r.doc.Member(i, partText)), signature: r.string(r.doc.Member(i, partSignature)),
		call: r.doc.Member(i, partCall), data: r.doc.Member(i, partData),
	}
	t := r.doc.Member(i, partThought)
	p.thought = t >= 0 && r.doc.Fields[t].Kind == scan.True
	if p.call >= 0 && r.doc.Fields[p.call].Kind != scan.Object {
		p.call = -1
	}
	if p.data >= 0 && r.doc.Fields[p.data].Kind != scan.Object {
		p.data = -1
	}
	return p
}
