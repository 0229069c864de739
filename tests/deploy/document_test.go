package deploy

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"farebox/tests/rig"
)

const pageStream = "BT /F 24 Tf 50 700 Td (behind bars) Tj ET"

// onePage is a PDF, which is read by WebAssembly in a child under seccomp.
var onePage = fmt.Sprintf(`%%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>> endobj
4 0 obj <</Length %d>> stream
%s
endstream endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj
trailer <</Root 1 0 R>>
%%%%EOF
`, len(pageStream), pageStream)

// readsPDF has a gateway read a document.
func readsPDF(t *testing.T, origin, key string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	f, err := w.CreateFormFile("file", "page.pdf")
	if err == nil {
		_, err = io.WriteString(f, onePage)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var status int
	var answer []byte
	// A busy machine may be too slow to start the child that reads; the client is asked to retry.
	for try := 0; try < 3 && (try == 0 || status == http.StatusServiceUnavailable); try++ {
		req, err := http.NewRequest("POST", origin+"/api/v1/augment/text-parser", bytes.NewReader(body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {w.FormDataContentType()}}
		res, err := rig.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		status = res.StatusCode
		if answer, err = io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if status != http.StatusOK || !strings.Contains(string(answer), "behind bars") {
		t.Errorf("a document is answered %d %s", status, answer)
	}
}
