//go:build !linux

package compare

import "os/exec"

func pinSelf(int) error { return nil }

func startPinned(cmd *exec.Cmd, _ int) error { return cmd.Start() }

func processors() []int { return nil }
