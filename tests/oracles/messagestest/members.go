package messagestest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/packages/respjson"
)

// allowed are members of messages beyond those of the types: the cost of an answer.
var allowed = map[string]bool{"Message.cost": true, "MessageDeltaEvent.cost": true}

// nullable are members that are required and null where there is nothing to say.
var nullable = map[string]bool{
	"Message.Container": true, "Message.Diagnostics": true, "Message.StopDetails": true, "Message.StopReason": true,
	"Message.StopSequence": true, "MessageDeltaEventDelta.Container": true, "MessageDeltaEventDelta.StopDetails": true,
	"MessageDeltaEventDelta.StopSequence": true, "Usage.InferenceGeo": true,
	"Usage.ServerToolUse": true, "Usage.Speed": true, "MessageDeltaUsage.ServerToolUse": true,
	"RefusalStopDetails.Category": true, "RefusalStopDetails.Explanation": true, "WebSearchResultBlock.PageAge": true,
}

// absent are members that are required, which the AI SDK nevertheless wants to be absent
// where there is nothing to say.
var absent = map[string]bool{"TextBlock.Citations": true}

// Members lists the faulty members of a value that anthropic-sdk-go has decoded: required
// ones that are missing or of another type, and unknown ones.
func Members(value any) (wrong []string) {
	visit(reflect.ValueOf(value), &wrong)
	return wrong
}

func visit(v reflect.Value, wrong *[]string) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			visit(v.Elem(), wrong)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), wrong)
		}
	case reflect.Struct:
		as := v.MethodByName("AsAny")
		if !as.IsValid() {
			visitStruct(v, wrong)
			return
		}
		one := as.Call(nil)[0]
		if one.IsNil() {
			*wrong = append(*wrong, fmt.Sprintf("a %s of no known kind: %v", v.Type().Name(),
				v.MethodByName("RawJSON").Call(nil)[0]))
			return
		}
		visit(one, wrong)
	}
}

func visitStruct(v reflect.Value, wrong *[]string) {
	meta := v.FieldByName("JSON")
	if !meta.IsValid() {
		return
	}
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		at := meta.FieldByName(f.Name)
		if f.Name == "JSON" || !at.IsValid() {
			continue
		}
		field, ok := at.Interface().(respjson.Field)
		if !ok {
			continue
		}
		name := t.Name() + "." + f.Name
		required := f.Tag.Get("api") == "required" || f.Tag.Get("default") != ""
		switch {
		case field.Raw() == respjson.Omitted && required && !absent[name]:
			*wrong = append(*wrong, name+" is missing")
		case field.Raw() == respjson.Omitted:
		case field.Raw() == respjson.Null:
			if required && !nullable[name] {
				*wrong = append(*wrong, name+" is null")
			}
		case !field.Valid():
			*wrong = append(*wrong, name+" is of another type: "+field.Raw())
		default:
			visit(v.Field(i), wrong)
		}
	}
	extra := meta.FieldByName("ExtraFields")
	if !extra.IsValid() {
		return
	}
	for _, key := range extra.MapKeys() {
		name := t.Name() + "." + key.String()
		if !allowed[name] && !strings.HasSuffix(name, "_parameters") {
			*wrong = append(*wrong, name+" is unknown")
		}
	}
}
