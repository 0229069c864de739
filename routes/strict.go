package routes

import (
	"strings"

	"github.com/tidwall/gjson"

	"farebox/proxy/scan"
)

// refuseUnrecognized refuses top members that the operation does not take.
func (v *Validator) refuseUnrecognized() {
	for i := range v.Doc.Fields {
		if f := &v.Doc.Fields[i]; f.Parent == -1 && !v.Book.takes(int(f.Name)) {
			v.Unrecognized("", v.Book.Root.Name(int(f.Name)))
		}
	}
	if int(v.Doc.Named(-1)) < v.Doc.Members {
		v.CheckMembers(v.Body, v.Book.Root, "")
	}
}

// CheckMembers refuses the members of an object that its Shape does not list. The path
// is that of the object.
func (v *Validator) CheckMembers(object []byte, known *scan.Shape, path string) {
	gjson.Parse(ViewString(object)).ForEach(func(key, _ gjson.Result) bool {
		if known.ID(key.Str) < 0 {
			v.Unrecognized(path, key.Str)
		}
		return len(v.Issues) < MaxIssues
	})
}

// Unrecognized refuses a member of the object at path by its name.
func (v *Validator) Unrecognized(path, name string) {
	hint := ""
	if v.Book != nil {
		hint = v.Book.Hints[name]
	}
	name = Excerpt(ViewBytes(name))
	v.Add(Issue{Code: "unrecognized_keys", Path: path, Named: name,
		Message: strings.TrimPrefix(path+"."+name, ".") + ": is not accepted by this endpoint." + hint})
}
