//go:build !linux

package slab

import "unsafe"

// hugePages is for systems that have them.
func hugePages(unsafe.Pointer, uintptr) {}
