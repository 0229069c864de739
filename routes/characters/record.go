package characters

import (
	"math"
	"strconv"
	"time"

	"farebox/proxy/jsontext"
	"farebox/routes"
)

// render makes the JSON of a record (addendum 18.2) but for its stats, which change.
func (r *characterView) render(public, author string) {
	b := jsontext.Object("{").Text("id", r.ID)
	text := func(name, value string, nullable bool) {
		b = append(append(append(b, ',', '"'), name...), '"', ':')
		if nullable && value == "" {
			b = append(b, "null"...)
			return
		}
		b = jsontext.AppendString(b, value)
	}
	flag := func(name string, on bool) {
		b = strconv.AppendBool(append(append(append(b, ',', '"'), name...), '"', ':'), on)
	}
	text("slug", r.Slug, false)
	text("name", r.Name, false)
	text("description", r.Description, true)
	text("author", author, false)
	flag("adult", r.Adult)
	flag("featured", r.Featured)
	flag("webEnabled", r.WebEnabled)
	text("modelId", r.ModelID, false)
	photo := ""
	if r.Picture != nil && public != "" {
		photo = public + routes.Prefix + "/characters/" + r.Slug + "/photo?v=" + r.Picture.Digest
	}
	text("photoUrl", photo, true)
	text("shareUrl", r.ShareURL, true)
	b = append(b, `,"tags":[`...)
	for _, tag := range r.Tags {
		b = jsontext.AppendString(jsontext.Comma(b), tag)
	}
	r.head = append(b, `],"stats":{"averageRating":`...)
	b = append([]byte(`},"createdAt":"`), moment(r.CreatedAt)...)
	r.tail = append(append(append(b, `","updatedAt":"`...), moment(r.UpdatedAt)...), `"}`...)
}

// append appends the record; rated is the rating of the account that asks, 0: none.
func (r *characterView) append(b []byte, rated int) []byte {
	b = appendAverage(append(b, r.head...), r.sum.RatingSum, r.sum.Ratings)
	b = jsontext.Object(b).Int("imports", r.sum.Imports).Int("ratingCount", r.sum.Ratings).
		Int("ratingSum", r.sum.RatingSum)
	b = append(b, `,"userRating":`...)
	if rated == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(rated), 10)
	}
	return append(b, r.tail...)
}

// appendAverage appends an average of ratings with two decimals; 0 of none.
func appendAverage(b []byte, sum, n int64) []byte {
	return strconv.AppendFloat(b, math.Round(mean(sum, n)*100)/100, 'f', -1, 64)
}

// moment is a time as records have it.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
