package image

import (
	"farebox/providers/filebody"
	"farebox/providers/image/picture"
)

// AddFile adds an image to a form. Its file name and type are of its format.
func AddFile(f *filebody.Form, name string, in *Input) {
	f.File(name, "image"+extension(in.Format), in.Format.ContentType(), in.Text, in.Raw)
}

func extension(f picture.Format) string {
	switch f {
	case picture.Unknown:
		return ""
	case picture.JPEG:
		return ".jpg"
	case picture.PNG, picture.WebP, picture.GIF:
	}
	return "." + f.String()
}
