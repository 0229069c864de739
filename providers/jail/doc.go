// Package jail does dangerous work on hostile bytes in children of this very
// binary, so that a parser that is fooled, loops or eats memory takes only its
// child with it. A [Pool] keeps warm children and hands them jobs over their
// stdin and stdout; [Main] is a child's whole life, and a [Job] one kind of work.
//
// A child has no environment and no descriptors but its three pipes. It has
// limits on address space, processor time, files and core dumps, is killed with
// its process group at the deadline and when its parent dies, and is replaced
// warm. On Linux (amd64 and arm64) seccomp then takes sockets, files, exec, fork,
// signals to others and new executable memory from it; where the kernel refuses
// that, no child serves. Other Unix systems and architectures have the limits
// only, among them that no descriptor opens; the rest has the deadline.
//
// Out of scope: knowledge of formats, of prices and of the caller.
package jail
