// Package gpu checks the attestation of NVIDIA's processors: signed measurements, as
// services put them into the member nvidia_payload of a report. [Check] does it with the
// pinned root; a service of NVIDIA's ([Remote]) also compares the measurements with those
// of drivers and firmware that NVIDIA has released.
//
// The check proves that genuine processors answered a nonce. Only the measured software of
// the report's domain proves that they work for that domain.
package gpu
