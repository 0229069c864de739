//go:build !race

package jail

// ownCommand starts a child: this very binary.
func ownCommand() []string { return []string{ownPath(), Word} }
