// Package gpu checks what NVIDIA's processors say of themselves: signed measurements,
// as services put them into the member nvidia_payload of a report. [Check] does it with
// what is pinned here; a service of NVIDIA's ([Remote]) also compares the measurements
// with those of drivers and firmware that NVIDIA has released.
//
// What was checked are genuine processors that answered a nonce. That they work for the
// domain that the report is of, nothing but the measured software of that domain says.
package gpu
