package responsestest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/openai/openai-go/v3/packages/respjson"
)

// allowed are members of responses beyond those of the types: the cost of an answer, its
// searches, and members that an earlier version of the packages requires.
var allowed = map[string]bool{
	"Response.cost": true, "Response.svc_parameters": true, "Response.store": true,
	"ResponseFunctionCallArgumentsDoneEvent.name": true, "ResponseTextDeltaEventLogprob.bytes": true,
	"ResponseTextDoneEventLogprob.bytes": true, "ResponseTextDeltaEventLogprobTopLogprob.bytes": true,
	"ResponseTextDoneEventLogprobTopLogprob.bytes": true,
}

// nullable are members that are required and null where there is nothing to say.
var nullable = map[string]bool{
	"Response.AccessPrograms": true, "Response.Error": true, "Response.IncompleteDetails": true,
	"Response.Instructions": true, "Response.Temperature": true, "Response.TopP": true, "FunctionTool.Parameters": true,
	"ResponseErrorEvent.Param": true,
}

// Members lists the faulty members of a value that openai-go has decoded: required ones
// that are missing or of another type, and unknown ones.
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
		if as := v.MethodByName("AsAny"); as.IsValid() {
			one := as.Call(nil)[0]
			if one.IsNil() {
				*wrong = append(*wrong, fmt.Sprintf("a %s of no known kind: %v", v.Type().Name(), raw(v)))
				return
			}
			visit(one, wrong)
			return
		}
		visitStruct(v, wrong)
	}
}

func raw(v reflect.Value) any {
	if m := v.MethodByName("RawJSON"); m.IsValid() {
		return m.Call(nil)[0]
	}
	return v.Interface()
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
		case field.Raw() == respjson.Omitted && required:
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
