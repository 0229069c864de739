package compare

import (
	"os"
	"runtime/debug"
	"strings"
)

// commit is that of this program, with a mark where it has changes of its own.
func commit() (revision string) {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings { // vcs.modified follows vcs.revision
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			revision += " with changes"
		}
	}
	return revision
}

// hardware reads processor and kernel names where the system has them.
func hardware() (model, kernel string) {
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(b))
	}
	return model, kernel
}
