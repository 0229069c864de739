package cli

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// A profile is printed as it is, an object as a line.
func TestAnswersOfOtherTypesArePrintedAsTheyAre(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "operator.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = w.Write([]byte("{}"))
	})}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	for typ, want := range map[string]string{"application/json": "{}\n", "application/octet-stream": "{}"} {
		answer, err := callSocket(path, "get", "/x?type="+typ, "")
		if err != nil || string(answer) != want {
			t.Errorf("%s: %q, %v", typ, answer, err)
		}
	}
}
