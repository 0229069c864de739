//go:build linux && !amd64 && !arm64

package jail

// filterCalls does nothing on architectures whose calls nobody here has tried.
func filterCalls() error { return nil }

func filterTool() error { return nil }
