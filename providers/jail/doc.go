// Package jail does dangerous work on hostile bytes in children of this very binary, so
// that a parser that is exploited, loops or uses up memory ends only its child. A [Pool]
// keeps warm children and gives them jobs over their stdin and stdout; [Main] is the main
// function of a child, and a [Job] one kind of work.
//
// A child has no environment and no descriptors but its three pipes. It has limits on
// address space, processor time, files and core dumps, is killed with its process group at
// the deadline and when its parent dies, and is replaced warm. On Linux (amd64 and arm64)
// seccomp then forbids sockets, files, exec, fork, signals to others and new executable
// memory; where the kernel refuses that, no child serves. Other Unix systems and
// architectures have the limits only, among them that no descriptor opens; the rest has the
// deadline.
//
// Out of scope: knowledge of formats, of prices and of the caller.
package jail
